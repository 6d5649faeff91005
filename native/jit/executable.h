// Memory that holds code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace skinny::jit {

// Pages of their own, written once and executable from then on, never both. A fork shares them; the
// owner must outlive every call of the code.
class Executable {
 public:
  // None where the system refuses executable memory.
  static std::optional<Executable> make(const std::vector<uint8_t>& code);
  ~Executable();
  Executable(Executable&& other) noexcept;
  Executable& operator=(Executable&& other) noexcept;

  const uint8_t* data() const { return data_; }
  size_t mapped_bytes() const { return size_; }

 private:
  Executable(uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t* data_;
  size_t size_;
};

}  // namespace skinny::jit
