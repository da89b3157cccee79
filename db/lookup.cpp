// SPDX-License-Identifier: MIT
#include "core/no_fork.h"
#include "core/of_thread.h"
#include "db/connection.h"
#include "db/lookup_records.h"
#include "db/lookup_table.h"
#include <swr/error.h>
#include <swr/lookup.h>

#include <SQLiteCpp/Transaction.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <utility>

namespace swr {
namespace {

namespace fs = std::filesystem;

/// What the file system says about a file. Its clock ticks in milliseconds.
struct FileMark {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size_bytes = 0;
  std::array<long long, 2> modified{};  ///< Seconds and nanoseconds.

  bool operator==(const FileMark&) const = default;
};

FileMark mark_of(const fs::path& path) {
  struct stat status {};
  // Opening for reading may leave an empty log behind: it says no more than none.
  if (stat(path.c_str(), &status) != 0 || status.st_size == 0) {
    return {};
  }
  return {status.st_dev,
          status.st_ino,
          status.st_size,
          {status.st_mtim.tv_sec, status.st_mtim.tv_nsec}};
}

/// Differs after every change. A commit is in the log a moment before readers see it, so the files
/// alone would hide one that was looked at meanwhile.
struct DatabaseMark {
  FileMark database;
  FileMark log;
  std::string newest_commit;

  bool operator==(const DatabaseMark&) const = default;
};

/// `known` is the newest commit where nobody can tell now.
DatabaseMark database_mark(const fs::path& path, const std::string& known = "") {
  const fs::path file = without_links(path);
  return {mark_of(file), mark_of(file.string() + "-wal"), newest_commit(file).value_or(known)};
}

/// The same file when the program changes its folder, as daemons do.
fs::path anchored(const fs::path& path) {
  std::error_code failure;
  const fs::path whole = fs::absolute(path, failure);
  return failure ? path : whole;
}

/// One state of the file, with the answers of it that took long to find.
struct State {
  explicit State(const LookupRecords& records) : table(records) {}

  LookupTable table;
  mutable RememberedAnswers remembered;
};

using SharedState = std::shared_ptr<const State>;

SharedState read_state(const fs::path& path, const LookupOptions& options) {
  return with_database_errors(path, [&] {
    SQLite::Database database = open_database(path, Store::Mode::read_only, options.content);
    const SQLite::Transaction snapshot(database);
    return std::make_shared<const State>(
        read_lookup_records(database, path, options.setting, std::nullopt, options.objective));
  });
}

/// What answers below a file; nullptr where nothing does.
const LookupTable* table_below(const LookupOptions& options) {
  const NoFork meanwhile;  // A child would wait for ever for what a thread has begun to make.
  const bool counts = options.shipped && options.objective == kTimeObjective &&
                      options.content == Store::Content::tuned && are_shipped_in(options.setting);
  return counts ? &shipped_table() : nullptr;
}

}  // namespace

struct Lookup::Impl {
  Impl(const fs::path& file, const LookupOptions& asked)
      : path(anchored(file)), options(asked), below(table_below(asked)), mark(database_mark(file)) {
    const NoFork meanwhile;
    publish(read_state(file, options));
  }
  explicit Impl(const LookupOptions& asked) : options(asked), below(table_below(asked)) {
    const NoFork meanwhile;
    publish(std::make_shared<const State>(LookupRecords{}));
  }

  void publish(SharedState next) {
    const std::lock_guard lock(state_mutex);
    state = std::move(next);
    published.store(state.get(), std::memory_order_release);
    version.fetch_add(1, std::memory_order_release);
  }

  /// The state in force. Each thread keeps the one it used last, so that the usual question costs
  /// one atomic load and no reference count; valid until the thread's next call.
  const State& current() const {
    SharedState& kept = of_thread<SharedState, Impl>();
    // A state that is kept is alive, so no other one can have its address.
    if (kept.get() != published.load(std::memory_order_acquire)) {
      const NoFork meanwhile;
      const std::lock_guard lock(state_mutex);
      kept = state;
    }
    return *kept;
  }

  bool refresh() {
    if (path.empty()) {
      return false;
    }
    const NoFork meanwhile;
    const std::lock_guard lock(refresh_mutex);
    // Before reading: a change meanwhile is then seen the next time.
    const DatabaseMark now = database_mark(path, mark.newest_commit);
    if (now == mark) {
      return false;
    }
    publish(read_state(path, options));
    mark = now;
    return true;
  }

  void watch(std::chrono::milliseconds every) {
    watcher = std::jthread([this, every](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any wake;
      while (!wake.wait_for(lock, stop, every, [&stop] { return stop.stop_requested(); })) {
        refresh_and_remember_failure();
      }
    });
  }

  void refresh_and_remember_failure() {
    std::string failure;
    try {
      refresh();
    } catch (const std::exception& error) {  // Of no memory left, say; the program goes on.
      failure = error.what();
    }
    const NoFork meanwhile;
    const std::lock_guard lock(state_mutex);
    watch_error = std::move(failure);
  }

  fs::path path;  ///< Empty without a file.
  LookupOptions options;
  const LookupTable* below;
  mutable std::mutex state_mutex;
  SharedState state;
  std::atomic<const State*> published = nullptr;
  std::atomic<unsigned long long> version = 0;
  std::string watch_error;
  std::mutex refresh_mutex;
  DatabaseMark mark;
  /// Last: it stops before what it uses goes.
  std::jthread watcher;
};

Lookup::Lookup(const fs::path& path, const LookupOptions& options)
    : impl_(std::make_unique<Impl>(path, options)) {
  if (options.watch_every) {
    impl_->watch(*options.watch_every);
  }
}

Lookup::Lookup(const LookupOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Lookup::~Lookup() = default;

Answer Lookup::best(const Problem& problem, const DeviceInfo& device) const {
  const State& state = impl_->current();
  return state.table.best(problem, device, impl_->below, &state.remembered);
}

std::optional<Answer> Lookup::stored(const Problem& problem, const DeviceInfo& device) const {
  return impl_->current().table.stored(problem, device, LookupTable::Kinds::own);
}

bool Lookup::refresh() { return impl_->refresh(); }

unsigned long long Lookup::version() const {
  return impl_->version.load(std::memory_order_acquire);
}

std::string Lookup::watch_error() const {
  const NoFork meanwhile;
  const std::lock_guard lock(impl_->state_mutex);
  return impl_->watch_error;
}

std::size_t Lookup::size() const { return impl_->current().table.size(); }

}  // namespace swr
