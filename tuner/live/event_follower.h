// SPDX-License-Identifier: MIT
// Reads a file of events while another process writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// Used by one thread.
class EventFollower {
 public:
  explicit EventFollower(std::filesystem::path file) : file_(std::move(file)) {}

  struct News {
    /// The file began anew: what was read before is of another run.
    bool is_new_file = false;
    /// Whole lines that came since the last call, at most a few megabytes of them. One that is too
    /// long for an event is empty.
    std::vector<std::string> lines;
    /// True when more is there to be read at once.
    bool is_more = false;
  };
  /// A file that is not there yet has no news.
  News read();

  const std::filesystem::path& file() const { return file_; }

 private:
  std::vector<std::string> whole_lines(std::string_view text);
  void begin_line(std::string_view part);

  std::filesystem::path file_;
  std::size_t offset_ = 0;
  std::uint64_t inode_ = 0;
  std::string begun_;         ///< A line whose end was not written yet.
  bool is_too_long_ = false;  ///< The line that was begun, which is not kept.
};

}  // namespace swr
