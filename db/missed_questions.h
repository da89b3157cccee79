// SPDX-License-Identifier: MIT
// Questions that no result answered exactly, noted in a file beside the database while a program
// serves, so that they can be tuned later: one line of JSON a note.
#pragma once

#include "db/problem_key.h"
#include <swr/problem.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace swr {

/// `tuned.db.missed` of `tuned.db`.
std::filesystem::path missed_questions_path(const std::filesystem::path& database);

/// Notes each problem of swr's own operations once a process. Any threads and processes may note in
/// one file at a time: a note is one write to its end. Bounded: 4096 problems a process, and none
/// once the file has a MiB.
class MissedQuestions {
 public:
  explicit MissedQuestions(std::filesystem::path file) : file_(std::move(file)) {}

  /// Serving goes on whatever happens to the file: what cannot be written is not noted.
  void note(const Problem& problem) noexcept;

 private:
  struct Hash {
    std::size_t operator()(const ProblemKey& key) const { return hash_of(key); }
  };

  std::filesystem::path file_;
  std::mutex mutex_;
  std::unordered_set<ProblemKey, Hash> noted_;
};

/// Those of a file, each once, what most processes noted first; none where there is no file.
/// Throws: Error{unreadable} naming the line that is no note.
std::vector<Problem> read_missed_questions(const std::filesystem::path& file);

/// Takes those problems out of the file for which `is_answered`. What others note meanwhile stays.
/// Throws: as read_missed_questions(); Error{not_writable}.
void forget_missed_questions(const std::filesystem::path& file,
                             const std::function<bool(const Problem&)>& is_answered);

}  // namespace swr
