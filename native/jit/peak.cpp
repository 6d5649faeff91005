#include "peak.h"

#include <algorithm>
#include <chrono>

#include "executable.h"
#include "isa.h"
#include "x86.h"

namespace skinny::jit {

double fma_peak() {
  if (isa() != Isa::avx2 && isa() != Isa::avx512) return 0;
  bool wide = isa() == Isa::avx512;
  constexpr size_t instructions = 1000, calls = 100, repeats = 20;
  constexpr uint8_t sums = 10;  // independent ones: more than two units of four cycles need
  Assembler code(wide ? Width::bits512 : Width::bits256);
  for (size_t i = 0; i < instructions; ++i)
    code.vfmadd231ps({static_cast<uint8_t>(i % sums)}, {sums}, {sums});
  code.vzeroupper();
  code.ret();
  std::optional<Executable> memory = Executable::make(code.bytes());
  if (!memory) return 0;
  auto run = reinterpret_cast<void (*)()>(reinterpret_cast<uintptr_t>(memory->data()));
  double best = 1;
  for (size_t repeat = 0; repeat < repeats; ++repeat) {
    auto begin = std::chrono::steady_clock::now();
    for (size_t call = 0; call < calls; ++call) run();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::min(best, seconds.count());
  }
  return 2e-9 * (wide ? 16 : 8) * instructions * calls / best;
}

}  // namespace skinny::jit
