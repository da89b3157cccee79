// SPDX-License-Identifier: MIT
#include "tuner/live/event_follower.h"

#include "core/files.h"
#include <swr/error.h>

#include <optional>
#include <utility>

namespace swr {
namespace {

/// So that a long run that is watched from its middle does not keep the reader waiting.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostBytesOfALine = std::size_t{1} << 20;

std::optional<RegularFile> opened(const std::filesystem::path& path) {
  try {
    return RegularFile(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

EventFollower::News EventFollower::read() {
  const std::optional<RegularFile> file = opened(file_);
  if (!file) {
    return {};
  }
  News news;
  const auto size = static_cast<std::size_t>(file->status().st_size);
  const std::uint64_t inode = file->status().st_ino;
  if (inode_ != 0 && (inode_ != inode || size < offset_)) {
    *this = EventFollower(file_);
    news.is_new_file = true;
  }
  inode_ = inode;
  const std::string text = file->read(offset_, kMostBytes);
  offset_ += text.size();
  news.lines = whole_lines(text);
  news.is_more = offset_ < size;
  return news;
}

std::vector<std::string> EventFollower::whole_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    begin_line(text.substr(0, end));
    lines.push_back(std::exchange(begun_, {}));
    is_too_long_ = false;
    text.remove_prefix(end + 1);
  }
  begin_line(text);
  return lines;
}

void EventFollower::begin_line(std::string_view part) {
  is_too_long_ = is_too_long_ || begun_.size() + part.size() > kMostBytesOfALine;
  if (is_too_long_) {
    begun_.clear();
  } else {
    begun_ += part;
  }
}

}  // namespace swr
