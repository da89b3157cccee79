// SPDX-License-Identifier: MIT
// What every fuzzing target shares. A target defines run_one(): it reads the input as swr would and
// checks what it got. Only swr::Error may leave it; anything else that is thrown, a violated
// require() and every report of a sanitizer end the process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace swr::fuzz {

/// Defined by the target.
void run_one(std::string_view input);

/// Ends the process, as a sanitizer would, unless `holds`.
void require(bool holds, std::string_view what);

/// A directory of this process, removed when it ends.
const std::filesystem::path& directory();

/// Puts the input where swr reads it: the file `name` in directory().
std::filesystem::path write_input(std::string_view name, std::string_view input);

/// Takes values off the front of an input; past its end they are 0.
class Bytes {
 public:
  explicit Bytes(std::string_view input) : rest_(input) {}

  bool is_empty() const { return rest_.empty(); }
  unsigned char byte();
  /// `count` bytes, fewer at the end.
  std::string_view text(std::size_t count);
  /// Fills any trivial type from the bytes.
  template <typename Value>
  Value value();

 private:
  std::string_view rest_;
};

template <typename Value>
Value Bytes::value() {
  Value value{};
  text(sizeof(Value)).copy(reinterpret_cast<char*>(&value), sizeof(Value));
  return value;
}

}  // namespace swr::fuzz
