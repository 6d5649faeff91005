// Memory that holds code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace skinny::jit {

struct CodePages;

// Code in pages that are written once and executable from then on, never both. A fork shares them;
// the owner must outlive every call of the code.
class Executable {
 public:
  // Code in pages of its own. None where the system refuses executable memory.
  static std::optional<Executable> make(const std::vector<uint8_t>& code);

  const uint8_t* data() const { return data_; }  // at a multiple of a cache line
  bool ready() const;  // whether it may be called yet
  size_t bytes() const;  // none where the system refused to make it executable

 private:
  friend class CodeWriter;
  Executable(std::shared_ptr<const CodePages> pages, const uint8_t* data, size_t size)
      : pages_(std::move(pages)), data_(data), size_(size) {}
  std::shared_ptr<const CodePages> pages_;
  const uint8_t* data_;
  size_t size_;
};

// Code that is made together lies together, so that most of it lies in huge pages.
class CodeWriter {
 public:
  CodeWriter() = default;
  ~CodeWriter() { finish(); }
  CodeWriter(const CodeWriter&) = delete;
  CodeWriter& operator=(const CodeWriter&) = delete;

  // None where the system refuses memory. The code is ready after `finish` at the latest.
  std::optional<Executable> add(const std::vector<uint8_t>& code);
  void finish();
  size_t bytes() const { return bytes_; }  // of all code so far

 private:
  size_t bytes_ = 0;
  std::shared_ptr<CodePages> pages_;  // that are written
};

}  // namespace skinny::jit
