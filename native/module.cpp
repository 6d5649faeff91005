#include "bind.h"
#include "isa.h"

NB_MODULE(_native, m) {
  // A network that a global variable keeps until the interpreter ends is no leak to be told of.
  nanobind::set_leak_warnings(false);
  m.def("isa", [] { return skinny::name(skinny::isa()); });
  m.def("isas", [] {
    nanobind::list found;
    for (skinny::Isa set : skinny::every_isa)
      if (skinny::supported(set)) found.append(skinny::name(set));
    return found;
  });
  skinny::bind_bitmask(m);
  skinny::bind_entropy(m);
  skinny::bind_adaptive(m);
  skinny::bind_symbols(m);
  skinny::bind_runtime(m);
  skinny::bind_jit(m);
  skinny::bind_tensors(m);
}
