// What Python hands to the runtime, converted by attribute name: a View is any object with the
// attributes of skinny.runtime.layout.View, a pooling axis one with those of
// skinny.runtime.windows.Axis, a Tensor one with those of skinny.runtime.strided.Tensor.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <vector>

#include "require.h"
#include "team.h"
#include "tensor.h"

namespace skinny {

template <class T, int Dimensions>
using In = nanobind::ndarray<const T, nanobind::ndim<Dimensions>, nanobind::c_contig,
                             nanobind::device::cpu>;
using Floats = In<float, 1>;
using Ints = In<int32_t, 1>;

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

template <>
struct type_caster<skinny::Tensor> {
  NB_TYPE_CASTER(skinny::Tensor, const_name("Tensor"))

  bool from_python(handle given, uint8_t, cleanup_list*) noexcept {
    try {
      value = {};
      value.storage = nanobind::cast<size_t>(given.attr("storage"));
      value.offset = nanobind::cast<size_t>(given.attr("offset"));
      object shape = given.attr("shape"), strides = given.attr("strides");
      value.rank = nanobind::len(shape);
      if (nanobind::len(strides) != value.rank) return false;
      for (size_t axis = 0; axis < value.rank && axis < skinny::max_rank; ++axis) {
        value.shape[axis] = nanobind::cast<size_t>(shape[axis]);
        value.strides[axis] = nanobind::cast<size_t>(strides[axis]);
      }
      return true;
    } catch (...) {
      return false;
    }
  }
};

}  // namespace nanobind::detail
