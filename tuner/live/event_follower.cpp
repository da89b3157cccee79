// SPDX-License-Identifier: MIT
#include "tuner/live/event_follower.h"

#include <algorithm>
#include <fstream>
#include <sys/stat.h>

namespace swr {
namespace {

/// So that a long run that is watched from its middle does not keep the reader waiting.
constexpr std::uintmax_t kMostBytes = 4U << 20U;

std::string read_part(const std::filesystem::path& path, std::uintmax_t offset,
                      std::uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

/// Takes the whole lines out of the text.
std::vector<std::string> take_lines(std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  text.erase(0, begin);
  return lines;
}

}  // namespace

EventFollower::News EventFollower::read() {
  struct stat status {};
  if (stat(file_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  News news;
  const auto size = static_cast<std::uintmax_t>(status.st_size);
  const bool is_another = inode_ != 0 && (inode_ != status.st_ino || size < offset_);
  if (is_another) {
    news.is_new_file = true;
    offset_ = 0;
    begun_.clear();
  }
  inode_ = status.st_ino;
  const std::string text = read_part(file_, offset_, std::min(size - offset_, kMostBytes));
  offset_ += text.size();
  begun_ += text;
  news.lines = take_lines(begun_);
  news.is_more = offset_ < size;
  return news;
}

}  // namespace swr
