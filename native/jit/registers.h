// What the code of both forms has in common: its registers, and cache lines.
#pragma once

#include "x86.h"

namespace skinny::jit {

// A function's arguments in the order of the System V calling convention, and others that the caller
// saves.
constexpr Reg in = Reg::rdi, out = Reg::rsi, out_stride = Reg::rdx, values = Reg::rcx;
constexpr Reg patches = Reg::r8, residual = Reg::r9, next_code = Reg::r10,
              next_stream = Reg::r11;  // of grouped channels
constexpr Reg row_stride = Reg::r8, row_stride_3 = Reg::r9, row_stride_5 = Reg::r10,
              row_stride_7 = Reg::r11, at = Reg::rax;

constexpr size_t line = 64;  // bytes

}  // namespace skinny::jit
