// What Python hands to the runtime, converted by attribute name: a View is any object with the
// attributes of skinny.runtime.layout.View, a pooling axis one with those of
// skinny.runtime.windows.Axis.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <vector>

#include "steps.h"

namespace skinny {

template <class T, int Dimensions>
using In = nanobind::ndarray<const T, nanobind::ndim<Dimensions>, nanobind::c_contig,
                             nanobind::device::cpu>;
using Floats = In<float, 1>;
using Ints = In<int32_t, 1>;

inline void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

// a * b, of sizes that a caller chose freely.
inline size_t product(size_t a, size_t b) {
  size_t result;
  require(!__builtin_mul_overflow(a, b, &result), "a size is too large to be computed");
  return result;
}

template <class T>
std::vector<T> copy(const In<T, 1>& array) {
  return {array.data(), array.data() + array.size()};
}

}  // namespace skinny

namespace nanobind::detail {

template <>
struct type_caster<skinny::View> {
  NB_TYPE_CASTER(skinny::View, const_name("View"))

  bool from_python(handle object, uint8_t, cleanup_list*) noexcept {
    try {
      auto get = [&](const char* name) { return nanobind::cast<size_t>(object.attr(name)); };
      value = {get("offset"), get("channels"),       get("height"),     get("width"),
               get("channel_stride"), get("row_stride"), get("origin")};
      return true;
    } catch (...) {
      return false;
    }
  }
};

template <>
struct type_caster<skinny::Pool::Axis> {
  NB_TYPE_CASTER(skinny::Pool::Axis, const_name("Axis"))

  bool from_python(handle object, uint8_t, cleanup_list*) noexcept {
    try {
      auto ints = [&](const char* name) {
        return skinny::copy(nanobind::cast<skinny::Ints>(object.attr(name)));
      };
      value = {ints("begin"), ints("end"),
               skinny::copy(nanobind::cast<skinny::Floats>(object.attr("scale"))),
               nanobind::cast<int32_t>(object.attr("dilation"))};
      return true;
    } catch (...) {
      return false;
    }
  }
};

}  // namespace nanobind::detail
