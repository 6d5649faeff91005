#include "runtime/map.h"

#include "functions.h"

namespace skinny::SKINNY_SET {
namespace {

inline Vec truth(IVec holds) { return of_bits(holds & 0x3f800000); }  // 1.f
// Of a float, zeros of both signs being false, or of an integer.
inline IVec is_true(Vec v) { return (bits_of(v) & 0x7fffffff) != 0; }

template <class F>
inline void each(const float* a, float* to, size_t n, F f) {
  size_t i = 0;
  for (; i + V <= n; i += V) store(to + i, f(load(a + i)));
  if (i < n) store_some(to + i, f(load_some(a + i, n - i)), n - i);
}

template <class F>
inline void each(const float* a, const float* b, float* to, size_t n, F f) {
  size_t i = 0;
  for (; i + V <= n; i += V) store(to + i, f(load(a + i), load(b + i)));
  if (i < n) store_some(to + i, f(load_some(a + i, n - i), load_some(b + i, n - i)), n - i);
}

template <class F>
inline void each(const float* a, const float* b, const float* c, float* to, size_t n, F f) {
  size_t i = 0;
  for (; i + V <= n; i += V) store(to + i, f(load(a + i), load(b + i), load(c + i)));
  size_t rest = n - i;
  if (rest)
    store_some(to + i,
               f(load_some(a + i, rest), load_some(b + i, rest), load_some(c + i, rest)), rest);
}

inline Vec limit(Vec x, Vec low, Vec high) { return at_most(at_least(x, low), high); }

void arithmetic(Opcode op, const float* a, const float* b, const float* c, float* to, size_t n) {
  switch (op) {
    case Opcode::add:
      return each(a, b, to, n, [](Vec x, Vec y) { return x + y; });
    case Opcode::sub:
      return each(a, b, to, n, [](Vec x, Vec y) { return x - y; });
    case Opcode::mul:
      return each(a, b, to, n, [](Vec x, Vec y) { return x * y; });
    case Opcode::div:
      return each(a, b, to, n, [](Vec x, Vec y) { return x / y; });
    case Opcode::pow:
      return each(a, b, to, n, [](Vec x, Vec y) { return power(x, y); });
    case Opcode::minimum:
      return each(a, b, to, n, [](Vec x, Vec y) { return smaller(x, y); });
    case Opcode::maximum:
      return each(a, b, to, n, [](Vec x, Vec y) { return larger(x, y); });
    case Opcode::eq:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(x == y); });
    case Opcode::ne:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(x != y); });
    case Opcode::lt:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(x < y); });
    case Opcode::le:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(x <= y); });
    case Opcode::gt:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(x > y); });
    case Opcode::ge:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(x >= y); });
    case Opcode::logical_not:
      return each(a, to, n, [](Vec x) { return truth(~is_true(x)); });
    case Opcode::logical_and:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(is_true(x) & is_true(y)); });
    case Opcode::logical_or:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(is_true(x) | is_true(y)); });
    case Opcode::logical_xor:
      return each(a, b, to, n, [](Vec x, Vec y) { return truth(is_true(x) ^ is_true(y)); });
    case Opcode::where:
      return each(a, b, c, to, n, [](Vec x, Vec y, Vec z) { return is_true(x) ? y : z; });
    default:  // from_int
      return each(a, to, n, [](Vec x) { return __builtin_convertvector(bits_of(x), Vec); });
  }
}

void function(Opcode op, const float* a, float* to, size_t n) {
  switch (op) {
    case Opcode::neg:
      return each(a, to, n, [](Vec x) { return -x; });
    case Opcode::abs:
      return each(a, to, n, [](Vec x) { return magnitude(x); });
    case Opcode::sqrt:
      return each(a, to, n, [](Vec x) { return root(x); });
    case Opcode::rsqrt:
      return each(a, to, n, [](Vec x) { return 1.f / root(x); });
    case Opcode::reciprocal:
      return each(a, to, n, [](Vec x) { return 1.f / x; });
    case Opcode::exp:
      return each(a, to, n, [](Vec x) { return exponential(x); });
    case Opcode::expm1:
      return each(a, to, n,
                  [](Vec x) { return x > 80.f ? exponential(x) : exponential_less_one(x); });
    case Opcode::log:
      return each(a, to, n, [](Vec x) { return logarithm(x); });
    case Opcode::log1p:
      return each(a, to, n, [](Vec x) { return logarithm_plus_one(x); });
    case Opcode::erf:
      return each(a, to, n, [](Vec x) { return error_function(x); });
    case Opcode::sin:
      return each(a, to, n, [](Vec x) { return sine_or_cosine(x, false); });
    case Opcode::cos:
      return each(a, to, n, [](Vec x) { return sine_or_cosine(x, true); });
    case Opcode::floor:
      return each(a, to, n, [](Vec x) { return rounded_down(x); });
    case Opcode::ceil:
      return each(a, to, n, [](Vec x) { return rounded_up(x); });
    case Opcode::round:
      return each(a, to, n, [](Vec x) { return nearest(x); });
    case Opcode::trunc:
      return each(a, to, n, [](Vec x) { return truncated(x); });
    default:  // sign; of NaN it is NaN, of zero x itself
      return each(a, to, n, [](Vec x) { return x == 0.f || x != x ? x : with_sign(splat(1), x); });
  }
}

void activation(Opcode op, const float* a, const float* b, const float* c, float* to, size_t n) {
  switch (op) {
    case Opcode::clamp:
      return each(a, b, c, to, n, [](Vec x, Vec low, Vec high) { return limit(x, low, high); });
    case Opcode::leaky_relu:
      return each(a, b, to, n, [](Vec x, Vec slope) { return x < 0.f ? x * slope : x; });
    case Opcode::elu:
      return each(a, b, to, n, [](Vec x, Vec alpha) {
        return x < 0.f ? alpha * exponential_less_one(x) : x;
      });
    case Opcode::prelu:
      return each(a, b, to, n, [](Vec x, Vec slope) { return x > 0.f ? x : x * slope; });
    case Opcode::softplus:
      return each(a, b, c, to, n, [](Vec x, Vec beta, Vec threshold) {
        Vec scaled = x * beta;
        return scaled > threshold ? x : soft_plus(scaled) / beta;
      });
    case Opcode::sigmoid:
      return each(a, to, n, [](Vec x) { return sigmoid(x); });
    case Opcode::tanh:
      return each(a, to, n, [](Vec x) { return tangent(x); });
    case Opcode::silu:
      return each(a, to, n, [](Vec x) { return x * sigmoid(x); });
    case Opcode::gelu:
      return each(a, to, n, [](Vec x) { return gelu(x); });
    case Opcode::gelu_tanh:
      return each(a, to, n, [](Vec x) { return gelu_by_tangent(x); });
    case Opcode::hardswish:
      return each(a, to, n, [](Vec x) { return x * hard_sigmoid(x); });
    case Opcode::hardsigmoid:
      return each(a, to, n, [](Vec x) { return hard_sigmoid(x); });
    default:  // mish
      return each(a, to, n, [](Vec x) { return x * tangent(soft_plus(x)); });
  }
}

void run(const Instruction* code, size_t count, float* const* registers, float* out, size_t n) {
  for (const Instruction* at = code; at != code + count; ++at) {
    const float *a = registers[at->a], *b = registers[at->b], *c = registers[at->c];
    float* to = at + 1 == code + count ? out : registers[at->to];
    if (at->op >= Opcode::neg && at->op <= Opcode::sign)
      function(at->op, a, to, n);
    else if (at->op >= Opcode::clamp && at->op <= Opcode::mish)
      activation(at->op, a, b, c, to, n);
    else
      arithmetic(at->op, a, b, c, to, n);
  }
}

}  // namespace

const MapKernels map{run};

}  // namespace skinny::SKINNY_SET
