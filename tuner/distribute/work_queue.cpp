// SPDX-License-Identifier: MIT
#include "tuner/distribute/work_queue.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// Between the name of a piece and that of the worker who has it.
constexpr char kOwner = '~';
/// A lease is renewed so often before it expires.
constexpr int kRenewalsPerLease = 6;

[[noreturn]] void reject(const fs::path& path, const std::string& cause) {
  throw Error(ErrorCode::not_writable, "queue " + path.string() + " cannot be used (" + cause +
                                           "); name a directory that every worker may write to");
}

/// Sets a file's time to now, by the clock of its file system. False when it is not there.
bool touch(const fs::path& file) { return utimensat(AT_FDCWD, file.c_str(), nullptr, 0) == 0; }

/// False when the file is not there any more: another was faster.
bool move_file(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) {
    return true;
  }
  if (errno != ENOENT) {
    reject(from, std::generic_category().message(errno));
  }
  return false;
}

/// The names in a folder, in order.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.insert(entry.path().filename().string());
    }
  } catch (const fs::filesystem_error& failure) {
    reject(folder, failure.code().message());
  }
  return names;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text) || !file.flush()) {
    reject(path, "it cannot be written");
  }
}

/// Sorts as its number does.
std::string piece_name(std::size_t place) {
  constexpr std::size_t kDigits = 6;
  const std::string digits = std::to_string(place);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

std::size_t place_of(const std::string& piece) {
  std::size_t place = 0;
  std::from_chars(piece.data(), piece.data() + piece.size(), place);
  return place;
}

std::optional<timespec> time_of(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? std::optional(status.st_mtim) : std::nullopt;
}

milliseconds between(const timespec& from, const timespec& to) {
  const auto of = [](const timespec& time) {
    return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(time.tv_sec) +
                                                    std::chrono::nanoseconds(time.tv_nsec));
  };
  return of(to) - of(from);
}

}  // namespace

std::string worker_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::string name = host.data();
  std::ranges::replace_if(
      name, [](char c) { return c == kOwner || c == '/'; }, '_');
  return name + "-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device{}());
}

WorkQueue::WorkQueue(Options options, const std::vector<std::string>& identities)
    : options_(std::move(options)), root_(options_.directory / "queue") {
  std::string list;
  for (const std::string& identity : identities) {
    list += identity + "\n";
  }
  create_or_join(list, identities.size());
  write_file(root_ / ("clock" + (kOwner + options_.worker)), "");
  renewal_ = std::jthread([this](const std::stop_token& stop) { renew(stop); });
}

WorkQueue::~WorkQueue() {
  renewal_.request_stop();
  wake_.notify_all();
  try {
    move_claimed("open");
  } catch (const Error&) {
    // The lease expires, which gives it back as well.
  }
  std::error_code not_there;
  fs::remove(root_ / ("clock" + (kOwner + options_.worker)), not_there);
}

/// The whole queue appears at once, by a rename that succeeds for one worker only: the target is a
/// directory that is never empty.
void WorkQueue::create_or_join(const std::string& list, std::size_t pieces) {
  const fs::path draft = options_.directory / ("draft" + (kOwner + options_.worker));
  std::error_code failure;
  fs::create_directories(options_.directory, failure);
  if (!fs::exists(root_)) {
    for (const char* name : {"open", "leased", "done"}) {
      fs::create_directories(draft / name, failure);
    }
    for (std::size_t place = 0; place < pieces; ++place) {
      write_file(draft / "open" / piece_name(place), "");
    }
    write_file(draft / "list", list);
    const bool published = std::rename(draft.c_str(), root_.c_str()) == 0;
    if (!published && errno != EEXIST && errno != ENOTEMPTY) {
      reject(root_, std::generic_category().message(errno));
    }
    fs::remove_all(draft, failure);
  }
  if (text_of(root_ / "list") != list) {
    throw Error(ErrorCode::invalid_argument,
                "queue " + options_.directory.string() +
                    " holds another list of problems; name another directory, or remove it when "
                    "no worker uses it");
  }
}

std::optional<std::size_t> WorkQueue::claim(const std::function<bool()>& stop_requested) {
  const milliseconds pause = std::min(options_.lease / kRenewalsPerLease, milliseconds(1000));
  while (!stop_requested()) {
    if (const auto place = claim_open()) {
      return place;
    }
    if (const auto place = claim_expired()) {
      return place;
    }
    if (all_done()) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(pause);
  }
  return std::nullopt;
}

std::optional<std::size_t> WorkQueue::claim_open() {
  for (const std::string& piece : names_in(folder("open"))) {
    if (const auto place = lease(folder("open") / piece, piece)) {
      return place;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> WorkQueue::claim_expired() {
  for (const std::string& name : names_in(folder("leased"))) {
    const fs::path file = folder("leased") / name;
    if (is_expired(file)) {
      if (const auto place = lease(file, name.substr(0, name.find(kOwner)))) {
        return place;
      }
    }
  }
  return std::nullopt;
}

/// Touched before it is renamed, so that nobody sees a new lease with an old time.
std::optional<std::size_t> WorkQueue::lease(const fs::path& file, const std::string& piece) {
  const fs::path leased = folder("leased") / (piece + kOwner + options_.worker);
  if (!touch(file) || !move_file(file, leased)) {
    return std::nullopt;
  }
  const std::scoped_lock lock(mutex_);
  piece_ = piece;
  leased_ = leased;
  return place_of(piece);
}

/// By the file system's clock: those of the hosts may differ.
bool WorkQueue::is_expired(const fs::path& file) const {
  const fs::path clock = root_ / ("clock" + (kOwner + options_.worker));
  if (!touch(clock)) {
    reject(clock, "it has vanished");
  }
  const auto now = time_of(clock);
  const auto renewed = time_of(file);
  return now && renewed && between(*renewed, *now) > options_.lease;
}

/// A piece on its way from one folder to another is in the second when the first was read before.
bool WorkQueue::all_done() const {
  const auto done = names_in(folder("done")).size();
  const std::string list = text_of(root_ / "list");
  return done == static_cast<std::size_t>(std::ranges::count(list, '\n'));
}

void WorkQueue::renew(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, options_.lease / kRenewalsPerLease, [] { return false; });
    if (!leased_.empty()) {
      touch(leased_);
    }
  }
}

bool WorkQueue::move_claimed(const char* to) {
  const std::scoped_lock lock(mutex_);
  if (leased_.empty()) {
    return true;
  }
  const fs::path from = std::exchange(leased_, {});
  return move_file(from, folder(to) / std::exchange(piece_, {}));
}

bool WorkQueue::finish() { return move_claimed("done"); }

}  // namespace swr
