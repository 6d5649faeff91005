#include "isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace skinny {

bool supported(Isa set) {
  if (set == Isa::baseline) return true;
#if defined(__aarch64__)
  return set == Isa::neon;  // part of every 64-bit ARM processor
#elif defined(__x86_64__)
  if (set == Isa::neon) return false;
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
              __builtin_cpu_supports("popcnt");
  if (set == Isa::avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

bool has_avx_vnni() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return supported(Isa::avx2) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
#else
  return false;
#endif
}

namespace {

Isa detect() {
  const char* wish = std::getenv("SKINNY_ISA");
  if (!wish || !*wish) {
    Isa best = Isa::baseline;
    for (Isa set : every_isa)
      if (supported(set)) best = set;
    return best;
  }
  for (Isa set : every_isa) {
    if (std::string(wish) == name(set)) {
      if (supported(set)) return set;
      throw std::invalid_argument("SKINNY_ISA=" + std::string(wish) +
                                  " asks for instructions this CPU does not have; unset it");
    }
  }
  throw std::invalid_argument("SKINNY_ISA=" + std::string(wish) +
                              " is unknown; it may be baseline, neon, avx2 or avx512");
}

}  // namespace

Isa isa() {
  static const Isa chosen = detect();
  return chosen;
}

const char* name(Isa set) {
  switch (set) {
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    case Isa::neon: return "neon";
    default: return "baseline";
  }
}

}  // namespace skinny
