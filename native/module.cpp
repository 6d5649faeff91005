#include "bind.h"
#include "isa.h"

NB_MODULE(_native, m) {
  m.def("isa", [] { return skinny::name(skinny::isa()); });
  skinny::bind_bitmask(m);
  skinny::bind_entropy(m);
  skinny::bind_symbols(m);
  skinny::bind_runtime(m);
}
