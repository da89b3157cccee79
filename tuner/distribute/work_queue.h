// SPDX-License-Identifier: MIT
// A list of pieces of work in a directory that several processes on several hosts share: each piece
// is claimed by renaming a file, so that one process gets it, and comes back when that one dies.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace swr {

/// A name that no other process has: host, process and a random number.
std::string worker_name();

/// DIR/queue/ holds `list`, what the pieces are, and a file for each piece in one of three folders:
/// open, leased (NAME~WORKER) or done. A lease holds for as long as its file is touched. Whoever
/// finishes a piece writes so into its file. Only regular files with the names of the list's pieces
/// count; whatever else lies in the folders is left alone. Used by one thread.
class WorkQueue {
 public:
  struct Options {
    std::filesystem::path directory;
    std::string worker;
    /// A lease that was not renewed for so long is another's to take. Longer than what a shared
    /// file system may hide from others.
    std::chrono::milliseconds lease{180'000};
  };

  /// Creates the queue, or joins one of the same list.
  /// Throws: Error{not_writable}; Error{invalid_argument} when the directory's list is another one.
  WorkQueue(Options options, const std::vector<std::string>& identities);
  /// Gives back what was claimed and not finished.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// The place of a piece that is this worker's from now on; empty when all are done. While others
  /// have the last pieces it waits: one of them may die. Asks `stop_requested` meanwhile.
  /// Throws: Error{not_writable}; Error{unreadable} when nothing is left to do, but pieces are in
  /// no folder, or in done without a worker's word, for as long as a lease: the folder may show a
  /// moved file late. Requires: the piece before was finished.
  std::optional<std::size_t> claim(const std::function<bool()>& stop_requested);

  /// The claimed piece is done. False when the lease was lost to another worker, which does it
  /// again.
  bool finish();

 private:
  struct State {
    bool is_all_done = false;
    /// Pieces that nobody can claim and no worker says are done; none while others have some.
    std::vector<std::size_t> vanished;
  };

  std::filesystem::path folder(const char* name) const { return root_ / name; }
  void create_or_join(const std::string& list, std::size_t pieces);
  std::optional<std::size_t> claim_open();
  std::optional<std::size_t> claim_expired();
  std::map<std::size_t, std::filesystem::path> pieces_in(const char* name) const;
  std::optional<std::size_t> lease(const std::filesystem::path& file, std::size_t place);
  bool is_expired(const std::filesystem::path& file) const;
  State look();
  [[noreturn]] void report(const std::vector<std::size_t>& places) const;
  void renew(const std::stop_token& stop);
  bool move_claimed(const char* to);

  Options options_;
  std::vector<std::string> identities_;
  std::filesystem::path root_;
  std::set<std::size_t> done_;  ///< By a worker's word.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  /// The claimed piece and the file of its lease; empty without one.
  std::string piece_;
  std::filesystem::path leased_;
  std::jthread renewal_;
};

}  // namespace swr
