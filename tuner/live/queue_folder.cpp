// SPDX-License-Identifier: MIT
#include "tuner/live/queue_folder.h"

#include "core/files.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <sstream>
#include <string>
#include <system_error>

namespace swr {
namespace {

namespace fs = std::filesystem;

constexpr char kOwner = '~';

/// Names of the files there; a folder that workers change may lose some meanwhile.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

/// None of what cannot be read.
std::vector<std::string> lines_of(const fs::path& path) try {
  constexpr std::size_t kMostBytesOfTheList = std::size_t{1} << 28;
  std::vector<std::string> lines;
  std::istringstream file(read_regular_file(path, kMostBytesOfTheList));
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
} catch (const Error&) {
  return {};
}

double silent_s(const fs::path& file) {
  std::error_code failure;
  const auto touched = fs::last_write_time(file, failure);
  const std::chrono::duration<double> silent = fs::file_time_type::clock::now() - touched;
  return failure ? 0.0 : std::max(0.0, silent.count());
}

/// What the piece of this number is.
std::string piece_text(const std::string& name, const std::vector<std::string>& list) {
  std::size_t place = list.size();
  std::from_chars(name.data(), name.data() + name.size(), place);
  return place < list.size() ? list[place] : name;
}

}  // namespace

Json queue_json(const fs::path& folder) {
  const fs::path root = folder / "queue";
  if (!fs::is_directory(root / "leased")) {
    return nullptr;
  }
  const std::vector<std::string> list = lines_of(root / "list");
  Json json = {{"pieces", list.size()},
               {"open", files_in(root / "open").size()},
               {"done", files_in(root / "done").size()},
               {"leased", Json::array()}};
  for (const fs::path& file : files_in(root / "leased")) {
    const std::string name = file.filename().string();
    const std::size_t owner = std::min(name.find(kOwner), name.size());
    json["leased"].push_back({{"piece", piece_text(name.substr(0, owner), list)},
                              {"worker", owner < name.size() ? name.substr(owner + 1) : ""},
                              {"silent_s", silent_s(file)}});
  }
  return json;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files = files_in(folder);
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".jsonl"; });
  return files;
}

}  // namespace swr
