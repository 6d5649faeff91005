// What tests see of the code generator: instructions, the code of a block, and its results.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bind.h"
#include "peak.h"
#include "runtime/arguments.h"
#include "tile_code.h"

namespace nb = nanobind;

namespace skinny {
namespace {

using jit::Address;
using jit::Assembler;
using jit::Form;
using jit::Reg;
using jit::Vector;
using nb::arg;

Form checked(const Form& form) {
  require(form.rows && form.vectors && form.rows <= tile_vectors && form.vectors <= tile_vectors &&
              form.rows * form.vectors <= tile_vectors,
          "a patch has 1 to 8 vectors");
  return form;
}

void bind_assembler(nb::module_& m) {
  auto reg = [](unsigned number) {
    require(number < 16, "there are 16 registers");
    return static_cast<Reg>(number);
  };
  auto at = [reg](unsigned base, int32_t disp, unsigned index, unsigned scale) {
    require(scale == 0 || ((scale == 1 || scale == 2 || scale == 4 || scale == 8) && index != 4),
            "an index has a scale of 1, 2, 4 or 8, and is not rsp");
    return Address{reg(base), disp, scale ? reg(index) : Reg::rsp, static_cast<uint8_t>(scale)};
  };
  auto vector = [](unsigned number) {
    require(number < 32, "there are 32 vector registers");
    return Vector{static_cast<uint8_t>(number)};
  };
  const auto to = arg("to"), from = arg("from_"), a = arg("a"), b = arg("b");
  const auto base = arg("base"), disp = arg("disp"), index = arg("index"), scale = arg("scale");
  nb::class_<Assembler> assembler(m, "Assembler");
  assembler
      .def("__init__",
           [](Assembler* self, bool wide) {
             new (self) Assembler(wide ? jit::Width::bits512 : jit::Width::bits256);
           },
           nb::kw_only(), arg("wide"))
      .def_prop_ro("code",
                   [](const Assembler& self) {
                     return nb::bytes(reinterpret_cast<const char*>(self.bytes().data()),
                                      self.size());
                   })
      .def("mov", [=](Assembler& self, unsigned x, unsigned y) { self.mov(reg(x), reg(y)); }, to,
           from)
      .def("add", [=](Assembler& self, unsigned x, unsigned y) { self.add(reg(x), reg(y)); }, to,
           from)
      .def("add_value", [=](Assembler& self, unsigned x, int32_t y) { self.add(reg(x), y); }, to,
           arg("value"))
      .def("lea",
           [=](Assembler& self, unsigned x, unsigned y, int32_t d, unsigned i, unsigned s) {
             self.lea(reg(x), at(y, d, i, s));
           },
           to, base, disp, index, scale)
      .def("jnz", [](Assembler& self, size_t target) {
             require(target <= self.size(), "a loop begins before it ends");
             self.jnz(target);
           },
           arg("target"))
      .def("mov_load",
           [=](Assembler& self, unsigned x, unsigned y, int32_t d, unsigned i, unsigned s) {
             self.mov(reg(x), at(y, d, i, s));
           },
           to, base, disp, index, scale)
      .def("vzeroupper", &Assembler::vzeroupper)
      .def("ret", &Assembler::ret)
      .def("vmovups_load",
           [=](Assembler& self, unsigned x, unsigned y, int32_t d, unsigned i, unsigned s) {
             self.vmovups(vector(x), at(y, d, i, s));
           },
           to, base, disp, index, scale)
      .def("vmovups_store",
           [=](Assembler& self, unsigned x, unsigned y, int32_t d, unsigned i, unsigned s) {
             self.vmovups(at(y, d, i, s), vector(x));
           },
           from, base, disp, index, scale)
      .def("vmovaps",
           [=](Assembler& self, unsigned x, unsigned y) { self.vmovaps(vector(x), vector(y)); },
           to, from)
      .def("vcvtdq2ps",
           [=](Assembler& self, unsigned x, unsigned y) { self.vcvtdq2ps(vector(x), vector(y)); },
           to, from)
      .def("vcvtps2dq",
           [=](Assembler& self, unsigned x, unsigned y) { self.vcvtps2dq(vector(x), vector(y)); },
           to, from)
      .def("vbroadcastss",
           [=](Assembler& self, unsigned x, unsigned y, int32_t d, unsigned i, unsigned s) {
             self.vbroadcastss(vector(x), at(y, d, i, s));
           },
           to, base, disp, index, scale)
      .def("vbroadcastf128",
           [=](Assembler& self, unsigned x, unsigned y, int32_t d, unsigned i, unsigned s) {
             self.vbroadcastf128(vector(x), at(y, d, i, s));
           },
           to, base, disp, index, scale)
      .def("vpermilps",
           [=](Assembler& self, unsigned x, unsigned y, unsigned number) {
             require(number < 4, "there are four floats in 128 bits");
             self.vpermilps(vector(x), vector(y), number);
           },
           to, from, arg("number"));
  using One = void (Assembler::*)(const Address&);
  auto prefetch = [&](const char* name, One method) {
    assembler.def(name,
                  [=](Assembler& self, unsigned y, int32_t d, unsigned i, unsigned s) {
                    (self.*method)(at(y, d, i, s));
                  },
                  base, disp, index, scale);
  };
  prefetch("prefetcht0", &Assembler::prefetcht0);
  prefetch("prefetcht1", &Assembler::prefetcht1);
  prefetch("prefetchw", &Assembler::prefetchw);
  using Three = void (Assembler::*)(Vector, Vector, Vector);
  using Memory = void (Assembler::*)(Vector, Vector, const Address&);
  auto three = [&](const char* name, Three method) {
    assembler.def(name,
                  [=](Assembler& self, unsigned x, unsigned y, unsigned z) {
                    (self.*method)(vector(x), vector(y), vector(z));
                  },
                  to, a, b);
  };
  auto memory = [&](const char* name, Memory method) {
    assembler.def(name,
                  [=](Assembler& self, unsigned x, unsigned y, unsigned z, int32_t d, unsigned i,
                      unsigned s) { (self.*method)(vector(x), vector(y), at(z, d, i, s)); },
                  to, a, base, disp, index, scale);
  };
  memory("vaddps", &Assembler::vaddps);
  three("vmaxps", &Assembler::vmaxps);
  three("vminps", &Assembler::vminps);
  three("vfmadd231ps", static_cast<Three>(&Assembler::vfmadd231ps));
  memory("vfmadd231ps_memory", static_cast<Memory>(&Assembler::vfmadd231ps));
  memory("vfmadd231ps_broadcast", &Assembler::vfmadd231ps_broadcast);
  memory("vinserti32x8_upper", &Assembler::vinserti32x8_upper);
  memory("vpdpbusd_broadcast", &Assembler::vpdpbusd_broadcast);
  memory("vaddps_broadcast", &Assembler::vaddps_broadcast);
  memory("vmulps_broadcast", &Assembler::vmulps_broadcast);
  three("vmulps", &Assembler::vmulps);
  three("vpackssdw", &Assembler::vpackssdw);
  three("vpackuswb", &Assembler::vpackuswb);
  three("vpaddsw", &Assembler::vpaddsw);
  three("vpshufb", &Assembler::vpshufb);
}

// weights: [rows][taps].
nb::tuple generate_block(const Form& form, const In<float, 2>& weights, const Ints& offsets,
                         const std::optional<Floats>& bias, bool last, float low, float high,
                         bool residual, size_t patches, int32_t ahead_in, bool ahead_out) {
  size_t rows = weights.shape(0), taps = weights.shape(1);
  require(rows && taps && offsets.size() == taps && (!bias || bias->size() == rows),
          "a block's sizes must agree");
  std::vector<int32_t> table = copy(offsets);
  jit::Block block{{}, rows, &table, bias ? bias->data() : nullptr, last, low, high,
                   residual, patches, {ahead_in, ahead_out}};
  for (size_t row = 0; row < rows; ++row)
    for (size_t tap = 0; tap < taps; ++tap)
      if (float value = weights.data()[row * taps + tap]; value != 0)
        block.weights.push_back({static_cast<uint32_t>(row), static_cast<uint32_t>(tap), value});
  jit::Generator generator(form);
  nb::list chunks;
  for (const jit::Chunk& chunk : generator.add(block))
    chunks.append(nb::make_tuple(chunk.code, chunk.bytes, chunk.stream, chunk.row,
                                 chunk.code_lines, chunk.stream_lines));
  nb::list stream;
  for (float value : generator.stream()) stream.append(value);
  const std::vector<uint8_t>& code = generator.code();
  return nb::make_tuple(nb::bytes(reinterpret_cast<const char*>(code.data()), code.size()), stream,
                        chunks);
}

// One tile at x[first], by generated code: y is [outputs][rows * vectors * lanes]. False where code
// cannot be run or takes more than max_bytes.
bool run_generated(const Form& form, const In<float, 2>& weights, size_t groups, size_t block_taps,
                   const Ints& offsets, size_t group_stride, const Floats& bias, float low,
                   float high, const Floats& x, size_t first, size_t row_stride, size_t rows,
                   size_t vectors, size_t max_bytes,
                   const nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>& y) {
  size_t outputs = weights.shape(0), floats = product(product(rows, vectors), form.lanes());
  require(outputs && groups && outputs % groups == 0 && block_taps &&
              offsets.size() == weights.shape(1) && bias.size() == outputs &&
              y.shape(0) == outputs && y.shape(1) == floats,
          "a layer's sizes must agree");
  require(form.channels > 1 ? vectors % form.vectors == 0
                            : rows == form.rows && vectors == form.vectors,
          "patches must fill the tile");
  ConvWeights layer(weights.data(), outputs, weights.shape(1), groups, block_taps, 1, false);
  TapOffsets taps(offsets.data(), offsets.size(), layer.block_taps(), groups,
                  static_cast<int64_t>(group_stride));
  size_t reach = static_cast<size_t>(taps.max) + product(rows - 1, row_stride) +
                 vectors * form.lanes();
  require(first <= x.size() && reach <= x.size() - first, "a tile must lie in its input");
  require(isa() == Isa::avx512 || (isa() == Isa::avx2 && form.width == jit::Width::bits256),
          "the processor cannot run this code");
  jit::CodeWriter writer;
  auto code = jit::TileCode::make(layer, taps, copy(bias), low, high, form, max_bytes, writer);
  writer.finish();
  if (!code || !code->ready()) return false;
  const jit::TileRun tile{x.data() + first, y.data(), floats, vectors};
  for (size_t index = 0; index < layer.range_count(); ++index)
    code->run(index, taps, &tile, 1, rows, static_cast<ptrdiff_t>(row_stride));
  return true;
}

}  // namespace

void bind_jit(nb::module_& m) {
  bind_assembler(m);
  nb::class_<Form>(m, "CodeForm")
      .def("__init__",  // of one channel
           [](Form* self, size_t rows, size_t vectors, int64_t row_stride) {
             new (self) Form(checked(jit::one_channel(rows, vectors, row_stride)));
           },
           arg("rows"), arg("vectors"), arg("row_stride"))
      .def_static("six_channels", &jit::six_channels, arg("by_four"))
      .def_static("many_channels", [] { return jit::many_channels; })
      .def_ro("channels", &Form::channels)
      .def_ro("rows", &Form::rows)
      .def_ro("vectors", &Form::vectors)
      .def_prop_ro("lanes", &Form::lanes);
  m.def("fma_peak", &jit::fma_peak, nb::call_guard<nb::gil_scoped_release>());
  m.def("generate_block", &generate_block, nb::kw_only(), arg("form"), arg("weights"),
        arg("offsets"), arg("bias").none(), arg("last"), arg("low"), arg("high"), arg("residual") = false,
        arg("patches") = 0, arg("ahead_in") = 0, arg("ahead_out") = false);
  m.def("run_generated", &run_generated, nb::kw_only(), arg("form"), arg("weights"), arg("groups"),
        arg("block_taps"), arg("offsets"), arg("group_stride"), arg("bias"), arg("low"),
        arg("high"), arg("x"), arg("first"), arg("row_stride"), arg("rows"), arg("vectors"),
        arg("max_bytes"), arg("y"));
}

}  // namespace skinny
