// Which instruction set the kernels use, and how a kernel table is chosen by it.
//
// A file in native/kernels/ is compiled once per instruction set, with SKINNY_SET naming it. It
// puts its functions into namespace SKINNY_SET and exports one table of function pointers:
//
//   struct ThingKernels { void (*run)(const float*, float*, size_t); };   // in thing.h
//   SKINNY_DECLARE_KERNELS(ThingKernels, thing)
//
//   namespace SKINNY_SET { const ThingKernels thing{run}; }              // in kernels/thing.cpp
//   SKINNY_CHOOSE(thing).run(...)                                        // in thing.cpp
//
// Kernel files include nothing whose inline functions the linker could merge between instruction
// sets (no <vector>, <algorithm>, <string>, ...): a merged copy compiled for AVX-512 would crash
// the baseline. Their own helpers live in an anonymous namespace.
#pragma once

namespace skinny {

enum class Isa { baseline, neon, avx2, avx512 };
constexpr Isa every_isa[] = {Isa::baseline, Isa::neon, Isa::avx2, Isa::avx512};  // the best last

// Does this CPU have it?
bool supported(Isa set);

// Whether this CPU has AVX-VNNI: `vpdpbusd` of 256 bits, without AVX-512.
bool has_avx_vnni();

// The best set this CPU has, or the one SKINNY_ISA=baseline|neon|avx2|avx512 asks for. Throws
// std::invalid_argument if SKINNY_ISA names an unknown set or one this CPU lacks.
Isa isa();

const char* name(Isa set);

}  // namespace skinny

#if defined(__x86_64__)
#define SKINNY_DECLARE_KERNELS(Type, table)       \
  namespace skinny::baseline { extern const Type table; } \
  namespace skinny::avx2 { extern const Type table; }     \
  namespace skinny::avx512 { extern const Type table; }
#define SKINNY_CHOOSE(table)                                             \
  (::skinny::isa() == ::skinny::Isa::avx512 ? ::skinny::avx512::table    \
   : ::skinny::isa() == ::skinny::Isa::avx2 ? ::skinny::avx2::table      \
                                            : ::skinny::baseline::table)
#elif defined(__aarch64__)
#define SKINNY_DECLARE_KERNELS(Type, table)       \
  namespace skinny::baseline { extern const Type table; } \
  namespace skinny::neon { extern const Type table; }
#define SKINNY_CHOOSE(table)                                         \
  (::skinny::isa() == ::skinny::Isa::neon ? ::skinny::neon::table    \
                                          : ::skinny::baseline::table)
#else
#define SKINNY_DECLARE_KERNELS(Type, table) \
  namespace skinny::baseline { extern const Type table; }
#define SKINNY_CHOOSE(table) (::skinny::baseline::table)
#endif
