// SPDX-License-Identifier: MIT
#include "tuner/live/live_state.h"

#include "core/bounded_json.h"
#include "core/files.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <sstream>
#include <system_error>
#include <type_traits>
#include <utility>

namespace swr {
namespace {

constexpr long long kNoGpu = -1;
/// More than there are; a file may say what it likes.
constexpr std::size_t kMostGpus = 1024;
constexpr std::size_t kMostStates = 32;
constexpr std::size_t kMostTimes = std::size_t{1} << 18;  ///< Of all runs.
constexpr std::size_t kMostBytesOfAText = 1024;
constexpr std::size_t kMostFinished = 50;

std::string clipped(std::string text) {
  text.resize(std::min(text.size(), kMostBytesOfAText));
  text.shrink_to_fit();
  return text;
}

/// The field, or a default where it is not there or of another type.
template <typename T>
T field(const Json& event, const char* name, T otherwise) {
  const auto found = event.find(name);
  // A fraction might be larger than any whole number.
  const bool is_count = std::is_same_v<T, long long>;
  if (found == event.end() || found->is_null() || (is_count && !found->is_number_integer())) {
    return otherwise;
  }
  try {
    if constexpr (std::is_same_v<T, std::string>) {
      return clipped(found->template get<std::string>());
    } else {
      return found->template get<T>();
    }
  } catch (const Json::exception&) {
    return otherwise;
  }
}

/// Null for what is no JSON, or more than an event holds.
Json event_of(const std::string& line) {
  constexpr JsonLimits kEvent{.bytes = 1 << 20, .values = 1 << 16};
  try {
    return parse_json(line, "an event", kEvent);
  } catch (const Error&) {
    return nullptr;
  }
}

Json pairs_json(const std::vector<std::pair<long long, double>>& pairs) {
  Json json = Json::array();
  for (const auto& [done, time_us] : pairs) {
    json.push_back({done, time_us});
  }
  return json;
}

Json run_json(long long gpu, const LiveRun& run) {
  return {{"gpu", gpu == kNoGpu ? Json() : Json(gpu)},
          {"title", run.title},
          {"device", run.device},
          {"provenance", run.provenance},
          {"started_at", run.started_at},
          {"changed_at", run.changed_at},
          {"variants", std::max(run.variants, run.done)},
          {"done", run.done},
          {"known", run.known},
          {"failed", run.failed},
          {"phase", run.phase},
          {"best_key", run.best_key},
          {"best_us", run.best_us > 0.0 ? Json(run.best_us) : Json()},
          {"times_us", pairs_json(run.times_us)},
          {"bests_us", pairs_json(run.bests_us)},
          {"is_over", run.is_over},
          {"is_interrupted", run.is_interrupted}};
}

/// Shapes make titles of runs of files that have none.
std::string title_of(const Json& event) {
  const std::string title = field<std::string>(event, "title", "");
  if (!title.empty() || !event.contains("problem")) {
    return title;
  }
  return clipped(event["problem"].dump());
}

}  // namespace

void LiveState::take(const std::string& line) {
  const Json event = event_of(line);
  const auto gpu = event.is_object() ? field<long long>(event, "gpu", kNoGpu) : kNoGpu;
  if (!event.is_object() || (by_gpu_.size() == kMostGpus && !by_gpu_.contains(gpu))) {
    ++unread_;
    return;
  }
  const std::string kind = field<std::string>(event, "event", "");
  LiveRun& run = by_gpu_[gpu];
  if (kind == "start") {
    start(run, event);
  } else if (kind == "variant") {
    variant(run, event);
  } else if (kind == "phase") {
    run.phase = field<std::string>(event, "doing", "");
  } else if (kind == "best") {
    run.best_key = field<std::string>(event, "key", "");
    run.best_us = field<double>(event, "time_us", 0.0);
    note(run.bests_us, field<long long>(event, "done", run.done), run.best_us);
  } else if (kind == "end") {
    end(run, event);
  } else if (kind != "finals") {
    ++unread_;
  }
  run.changed_at = field<double>(event, "at", run.changed_at);
}

void LiveState::note(std::vector<std::pair<long long, double>>& times, long long done,
                     double time_us) {
  if (times_ < kMostTimes) {
    times.emplace_back(done, time_us);
    ++times_;
  }
}

void LiveState::start(LiveRun& run, const Json& event) {
  times_ -= run.times_us.size() + run.bests_us.size();
  // A phase may have been named before: choosing what to try comes first.
  run = LiveRun{};
  run.title = title_of(event);
  run.device = event.contains("device") && event["device"].is_object()
                   ? field<std::string>(event["device"], "name", "")
                   : "";
  run.provenance = field<std::string>(event, "provenance", "");
  run.variants = field<long long>(event, "variants", 0);
  run.started_at = field<double>(event, "at", 0.0);
}

void LiveState::variant(LiveRun& run, const Json& event) {
  run.phase.clear();
  run.done = field<long long>(event, "done", run.done + 1);
  run.known += field<bool>(event, "known", false) ? 1 : 0;
  const std::string state = field<std::string>(event, "state", "ok");
  const double time_us = field<double>(event, "time_us", 0.0);
  if (state != "ok") {
    const bool has_room = run.failed.size() < kMostStates || run.failed.contains(state);
    ++run.failed[has_room ? state : "other"];
  } else if (time_us > 0.0) {
    note(run.times_us, run.done, time_us);
  }
}

void LiveState::end(LiveRun& run, const Json& event) {
  run.phase.clear();
  run.is_over = true;
  run.is_interrupted = field<bool>(event, "interrupted", false);
  // The finals may have decided otherwise than the times alone.
  run.best_key = field<std::string>(event, "best", run.best_key);
  run.best_us = field<double>(event, "time_us", run.best_us);
  ++finished_;
  last_.push_front({.title = run.title,
                    .best_key = run.best_key,
                    .best_us = run.best_us,
                    .total_s = field<double>(event, "total_s", 0.0),
                    .is_interrupted = run.is_interrupted});
  last_.resize(std::min(kMostFinished, last_.size()));
}

Json LiveState::snapshot() const {
  Json json = {{"runs", Json::array()},
               {"finished", finished_},
               {"last", Json::array()},
               {"unread", unread_}};
  for (const auto& [gpu, run] : by_gpu_) {
    json["runs"].push_back(run_json(gpu, run));
  }
  for (const Finished& one : last_) {
    json["last"].push_back({{"title", one.title},
                            {"best_key", one.best_key},
                            {"best_us", one.best_us > 0.0 ? Json(one.best_us) : Json()},
                            {"total_s", one.total_s},
                            {"is_interrupted", one.is_interrupted}});
  }
  return json;
}

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

namespace {

/// So that a long run that is watched from its middle does not keep the reader waiting.
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr std::size_t kMostBytesOfALine = std::size_t{1} << 20;

/// Empty where it cannot be read: one of many must not hide the others.
std::string part_of(const RegularFile& file, std::size_t offset) {
  try {
    return file.read(offset, kMostBytes);
  } catch (const Error&) {
    return "";
  }
}

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
  const std::string text = part_of(*file, offset_);
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
