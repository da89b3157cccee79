// SPDX-License-Identifier: MIT
#include "tuner/distribute/work_queue.h"

#include "core/files.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <string_view>
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
constexpr const char* kOpen = "open";
constexpr const char* kLeased = "leased";
constexpr const char* kDone = "done";
/// What the file of a finished piece begins with. A file that somebody put into done says nothing.
constexpr std::string_view kDoneBy = "done by ";

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

/// Empty for what cannot be read.
std::string text_of(const fs::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // More than any list of problems.
  try {
    return read_regular_file(path, kMostBytes);
  } catch (const Error&) {
    return {};
  }
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text) || !file.flush()) {
    reject(path, "it cannot be written");
  }
}

void make_folder(const fs::path& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) {
    reject(path, failure.message());
  }
}

/// A folder that is gone at the end, unless it has another name by then.
class RemovedFolder {
 public:
  explicit RemovedFolder(fs::path path) : path_(std::move(path)) {}
  ~RemovedFolder() {
    std::error_code not_there;
    fs::remove_all(path_, not_there);
  }
  RemovedFolder(const RemovedFolder&) = delete;
  RemovedFolder& operator=(const RemovedFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Sorts as its number does.
std::string piece_name(std::size_t place) {
  constexpr std::size_t kDigits = 6;
  const std::string digits = std::to_string(place);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

/// Everything a queue has, in a folder that no worker looks into.
void write_draft(const fs::path& draft, const std::string& list, std::size_t pieces) {
  for (const char* name : {kOpen, kLeased, kDone}) {
    make_folder(draft / name);
  }
  for (std::size_t place = 0; place < pieces; ++place) {
    write_file(draft / kOpen / piece_name(place), "");
  }
  write_file(draft / "list", list);
}

/// Empty for what is no piece's name.
std::optional<std::size_t> place_of(const std::string& name, std::size_t pieces) {
  std::size_t place = 0;
  std::from_chars(name.data(), name.data() + name.size(), place);
  return place < pieces && name == piece_name(place) ? std::optional(place) : std::nullopt;
}

/// Into a file that is there. False when it is not there any more.
bool write_into(const fs::path& path, std::string_view text) {
  // Not waiting for a pipe's reader.
  const int file = open(path.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) {
    return false;
  }
  const bool is_written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int cause = errno;
  if (file >= 0) {
    close(file);
  }
  if (!is_written) {
    reject(path, std::generic_category().message(cause));
  }
  return true;
}

std::optional<timespec> time_of(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? std::optional(status.st_mtim) : std::nullopt;
}

/// A file may be of any year, further away than nanoseconds reach.
std::chrono::duration<double> between(const timespec& from, const timespec& to) {
  const auto of = [](const timespec& time) {
    return std::chrono::duration<double>(static_cast<double>(time.tv_sec)) +
           std::chrono::nanoseconds(time.tv_nsec);
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
    : options_(std::move(options)), identities_(identities), root_(options_.directory / "queue") {
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
    move_claimed(kOpen);
  } catch (const Error&) {
    // The lease expires, which gives it back as well.
  }
  std::error_code not_there;
  fs::remove(root_ / ("clock" + (kOwner + options_.worker)), not_there);
}

/// The whole queue appears at once, by a rename that succeeds for one worker only: the target is a
/// directory that is never empty. One that could not be made whole never appears.
void WorkQueue::create_or_join(const std::string& list, std::size_t pieces) {
  make_folder(options_.directory);
  if (!fs::exists(root_)) {
    const RemovedFolder draft(options_.directory / ("draft" + (kOwner + options_.worker)));
    write_draft(draft.path(), list, pieces);
    const bool published = std::rename(draft.path().c_str(), root_.c_str()) == 0;
    if (!published && errno != EEXIST && errno != ENOTEMPTY) {
      reject(root_, std::generic_category().message(errno));
    }
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
  auto last_seen = std::chrono::steady_clock::now();
  while (!stop_requested()) {
    if (const auto place = claim_open()) {
      return place;
    }
    if (const auto place = claim_expired()) {
      return place;
    }
    const auto now = std::chrono::steady_clock::now();
    const State state = look();
    if (state.is_all_done) {
      return std::nullopt;
    }
    last_seen = state.vanished.empty() ? now : last_seen;
    if (now - last_seen > options_.lease) {
      report(state.vanished);
    }
    std::this_thread::sleep_for(pause);
  }
  return std::nullopt;
}

/// The regular files of a folder that stand for a piece of the list, by its place.
std::map<std::size_t, fs::path> WorkQueue::pieces_in(const char* name) const {
  std::map<std::size_t, fs::path> pieces;
  try {
    for (const auto& entry : fs::directory_iterator(folder(name))) {
      const std::string file = entry.path().filename().string();
      const std::size_t owner = file.find(kOwner);
      const auto place = place_of(file.substr(0, owner), identities_.size());
      const bool has_owner = owner != std::string::npos;
      std::error_code has_moved;
      if (place && has_owner == (name == std::string_view(kLeased)) &&
          fs::is_regular_file(entry.symlink_status(has_moved))) {
        pieces.emplace(*place, entry.path());
      }
    }
  } catch (const fs::filesystem_error& failure) {
    reject(folder(name), failure.code().message());
  }
  return pieces;
}

std::optional<std::size_t> WorkQueue::claim_open() {
  for (const auto& [place, file] : pieces_in(kOpen)) {
    if (lease(file, place)) {
      return place;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> WorkQueue::claim_expired() {
  for (const auto& [place, file] : pieces_in(kLeased)) {
    if (is_expired(file) && lease(file, place)) {
      return place;
    }
  }
  return std::nullopt;
}

/// Touched before it is renamed, so that nobody sees a new lease with an old time.
std::optional<std::size_t> WorkQueue::lease(const fs::path& file, std::size_t place) {
  const std::string piece = piece_name(place);
  const fs::path leased = folder(kLeased) / (piece + kOwner + options_.worker);
  if (!touch(file)) {
    if (errno != ENOENT) {
      reject(file, std::generic_category().message(errno));
    }
    return std::nullopt;
  }
  if (!move_file(file, leased)) {
    return std::nullopt;
  }
  const std::scoped_lock lock(mutex_);
  piece_ = piece;
  leased_ = leased;
  return place;
}

/// By the file system's clock: those of the hosts may differ.
bool WorkQueue::is_expired(const fs::path& file) const {
  const fs::path clock = root_ / ("clock" + (kOwner + options_.worker));
  if (!touch(clock)) {
    reject(clock, "it has vanished");
  }
  const auto now = time_of(clock);
  const auto renewed = time_of(file);
  // A lease from the future was not renewed either, and would never expire.
  return now && renewed && std::chrono::abs(between(*renewed, *now)) > options_.lease;
}

/// A piece on its way forward is in the second folder when the first was read before.
WorkQueue::State WorkQueue::look() {
  const bool is_any_held = !pieces_in(kOpen).empty() || !pieces_in(kLeased).empty();
  for (const auto& [place, file] : pieces_in(kDone)) {
    if (!done_.contains(place) && text_of(file).starts_with(kDoneBy)) {
      done_.insert(place);
    }
  }
  State state{.is_all_done = done_.size() == identities_.size(), .vanished = {}};
  for (std::size_t place = 0; place < identities_.size() && !is_any_held; ++place) {
    if (!done_.contains(place)) {
      state.vanished.push_back(place);
    }
  }
  return state;
}

void WorkQueue::report(const std::vector<std::size_t>& places) const {
  throw Error(ErrorCode::unreadable,
              "queue " + options_.directory.string() + " has lost " +
                  std::to_string(places.size()) + " of " + std::to_string(identities_.size()) +
                  " pieces, which nobody can do: the first is " + piece_name(places.front()) +
                  " (" + identities_[places.front()] + "); remove " + root_.string() +
                  " and start the workers again, which continue their databases");
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
  const fs::path target = folder(to) / std::exchange(piece_, {});
  const bool is_done = to == std::string_view(kDone);
  if (is_done && !write_into(from, std::string(kDoneBy) + options_.worker + "\n")) {
    return false;
  }
  return move_file(from, target);
}

bool WorkQueue::finish() { return move_claimed(kDone); }

}  // namespace swr
