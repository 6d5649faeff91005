#include "isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace skinny {
namespace {

bool supported(Isa set) {
  if (set == Isa::baseline) return true;
#if defined(__x86_64__)
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

Isa detect() {
  const char* wish = std::getenv("SKINNY_ISA");
  for (Isa set : {Isa::avx512, Isa::avx2, Isa::baseline}) {
    if (!wish || !*wish) {
      if (supported(set)) return set;
    } else if (std::string(wish) == name(set)) {
      if (supported(set)) return set;
      throw std::invalid_argument("SKINNY_ISA=" + std::string(wish) +
                                  " asks for instructions this CPU does not have; unset it");
    }
  }
  throw std::invalid_argument("SKINNY_ISA=" + std::string(wish) +
                              " is unknown; it may be baseline, avx2 or avx512");
}

}  // namespace

Isa isa() {
  static const Isa chosen = detect();
  return chosen;
}

const char* name(Isa set) {
  return set == Isa::avx512 ? "avx512" : set == Isa::avx2 ? "avx2" : "baseline";
}

}  // namespace skinny
