// SPDX-License-Identifier: MIT
#include "db/missed_questions.h"

#include "core/bounded_json.h"
#include "core/files.h"
#include "core/json.h"
#include "core/operation.h"
#include <swr/error.h>

#include <algorithm>
#include <cstdint>
#include <fcntl.h>
#include <map>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfAProcess = 4096;
constexpr std::uintmax_t kMostBytes = 1 << 20;

std::string line_of(const Problem& problem) { return Json(problem).dump() + "\n"; }

/// One write, so that lines of several processes do not mix. False when it failed, or would go
/// through a link, as with the other files beside a database.
bool append(const fs::path& file, const std::string& lines) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  const FileDescriptor out(open(file.c_str(), kFlags, 0644));
  struct stat status {};
  return out.get() >= 0 && fstat(out.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         static_cast<std::uintmax_t>(status.st_size) + lines.size() <= kMostBytes &&
         write(out.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
}

/// The notes of a file in their order.
std::vector<Problem> read_notes(const fs::path& file) {
  std::vector<Problem> notes;
  std::istringstream in(read_regular_file(file, kMostBytes));
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      notes.push_back(parse_json(line, "it").get<Problem>());
    } catch (const Error& error) {
      throw Error(ErrorCode::unreadable, "line " + std::to_string(number) + " of " + file.string() +
                                             " is no question that swr noted (" + error.what() +
                                             "); delete the line or the file");
    }
  }
  return notes;
}

}  // namespace

fs::path missed_questions_path(const fs::path& database) { return database.string() + ".missed"; }

void MissedQuestions::note(const Problem& problem) noexcept {
  try {
    if (!problem.operation().source_digest().empty()) {
      return;  // Of a user's kernel, which swr-tune knows with its spec alone.
    }
    const std::lock_guard lock(mutex_);
    if (noted_.size() < kMostOfAProcess && noted_.insert(problem_key(problem)).second) {
      append(file_, line_of(problem));
    }
  } catch (const std::exception&) {
    // No memory, say; the launch that asked goes on.
  }
}

std::vector<Problem> read_missed_questions(const fs::path& file) {
  std::vector<Problem> missed;
  std::map<Problem, std::size_t> counts;
  if (!fs::exists(file)) {
    return missed;
  }
  for (const Problem& problem : read_notes(file)) {
    if (counts[problem]++ == 0) {
      missed.push_back(problem);
    }
  }
  std::ranges::stable_sort(missed, std::greater{},
                           [&](const Problem& problem) { return counts.at(problem); });
  return missed;
}

void forget_missed_questions(const fs::path& file,
                             const std::function<bool(const Problem&)>& is_answered) {
  // Notes from here on go to a new file.
  const fs::path taken = file.string() + "." + std::to_string(getpid());
  std::error_code failure;
  fs::rename(file, taken, failure);
  if (failure == std::errc::no_such_file_or_directory) {
    return;
  }
  if (failure) {
    throw Error(ErrorCode::not_writable, file.string() + " cannot be renamed (" +
                                             failure.message() +
                                             "); change the permissions of its directory");
  }
  std::string left;
  for (const Problem& problem : read_notes(taken)) {
    left += is_answered(problem) ? "" : line_of(problem);
  }
  if (!left.empty() && !append(file, left)) {
    throw Error(ErrorCode::not_writable,
                file.string() + " cannot be written; the questions are in " + taken.string());
  }
  fs::remove(taken, failure);
}

}  // namespace swr
