// SPDX-License-Identifier: MIT
// What a stream of events (report/event_log.h) comes to: how far each run is, what it found, and
// how its times came.
#pragma once

#include "core/json.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// One problem on one GPU, from its start to its end.
struct LiveRun {
  std::string title;
  std::string device;
  std::string provenance;   ///< measured or predicted.
  double started_at = 0.0;  ///< Seconds since 1970; 0 in files of an older swr.
  double changed_at = 0.0;
  long long variants = 0;  ///< Planned.
  long long done = 0;
  long long known = 0;
  std::map<std::string, long long> failed;  ///< By state.
  std::string phase;                        ///< What goes on while nothing is evaluated.
  std::string best_key;
  double best_us = 0.0;  ///< 0 while nothing succeeded.
  /// How many were done and the time, of each success, and of each that was the fastest so far.
  std::vector<std::pair<long long, double>> times_us;
  std::vector<std::pair<long long, double>> bests_us;
  bool is_over = false;
  bool is_interrupted = false;
};

/// Takes the events of one file. A run of several GPUs has a run of each.
class LiveState {
 public:
  /// A line that is no event is counted and otherwise ignored: the file may be of a newer swr.
  void take(const std::string& line);

  /// {"runs": [...], "finished": N, "last": [...], "unread": N}: the run of each GPU that is under
  /// way or was the last, the newest problems that are over, the newest first, and how many there
  /// were.
  Json snapshot() const;

 private:
  struct Finished {
    std::string title;
    std::string best_key;
    double best_us = 0.0;
    double total_s = 0.0;
    bool is_interrupted = false;
  };

  void start(LiveRun& run, const Json& event);
  void variant(LiveRun& run, const Json& event);
  void end(LiveRun& run, const Json& event);
  void note(std::vector<std::pair<long long, double>>& times, long long done, double time_us);

  std::map<long long, LiveRun> by_gpu_;  ///< -1 where events name no GPU.
  std::size_t times_ = 0;                ///< That the runs hold.
  std::size_t finished_ = 0;
  std::deque<Finished> last_;  ///< Of those that finished, the newest first.
  std::size_t unread_ = 0;
};

/// {"pieces": N, "open": N, "done": N, "leased": [{"piece", "worker", "silent_s"}]}; null where the
/// folder has no queue. `silent_s` is for how long a worker gave no sign, by the clock of this
/// host.
Json queue_json(const std::filesystem::path& folder);

/// Files of events in the folder, in the order of their names.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

// Reads a file of events while another process writes it.

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
