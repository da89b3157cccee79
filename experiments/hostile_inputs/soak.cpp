// SPDX-License-Identifier: MIT
// Eight threads launch kernels through one Runtime, on the fake driver and as fast as they can,
// while another tunes in the background, publishes what it found, and puts damaged files in its
// place.
//
//   soak [SECONDS]     ends with 1 after a wrong answer, or where memory grew
//
// Of every tuned length one of two kernels is the faster, and which one changes with each round of
// tuning. So each launch has one right grid, or two while a new database is being read.
#include "db/missed_questions.h"
#include "driver/cuda_driver.h"
#include "driver/devices.h"
#include "export/export.h"
#include "tests/db/fixtures.h"
#include "tests/runtime/fake_driver/fake_driver.h"
#include "tests/runtime/serving.h"
#include "tests/support/noisy_evaluator.h"
#include "tuner/run/tuner.h"
#include <swr/constraints.h>
#include <swr/lookup.h>
#include <swr/runtime.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace swr {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kThreads = 8;
constexpr std::array kLengths{192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
constexpr int kHeads = 8;
/// A database begins anew after so many rounds, so that it does not grow without end.
constexpr unsigned kRoundsOfADatabase = 16;

AttentionVariant kernel(bool is_wide) { return tile(is_wide ? 128 : 64, 64); }

/// Which of the kernels is the faster one in a round.
bool is_wide_best(int length, unsigned round) {
  return (static_cast<unsigned>(length) / 64U * 7U + round) % 3U != 0;
}

unsigned grid_of(int length, bool is_wide) {
  const int rows = is_wide ? 128 : 64;
  return static_cast<unsigned>(kHeads * ((length + rows - 1) / rows));
}

/// What went wrong first, and how often something did.
class Verdict {
 public:
  void wrong(const std::string& what) {
    const std::lock_guard lock(mutex_);
    first_ = count_ == 0 ? what : first_;
    ++count_;
  }
  long long count() const { return count_; }
  const std::string& first() const { return first_; }

 private:
  std::mutex mutex_;
  std::string first_;
  std::atomic<long long> count_ = 0;
};

double resident_mib() {
  long long pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return static_cast<double>(pages * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// The database that a tuner writes, and the copy that is served.
class Tuning {
 public:
  Tuning() {
    tune_round(0);
    // Both kernels win somewhere, so both are in the export.
    const Store store(master_, Store::Mode::read_only);
    export_kernels(store, key_as_cubin, exported_);
    publish();
  }

  const fs::path& served() const { return served_; }
  const fs::path& exported() const { return exported_; }
  fs::path missed() const { return missed_questions_path(served_); }
  const DeviceInfo& device() const { return device_; }

  /// Tunes all lengths, and a few that programs missed, as `swr-tune tune --missed` does.
  void tune_round(unsigned round) {
    if (round % kRoundsOfADatabase == 0) {
      fs::remove(master_);
    }
    Store store(master_, Store::Mode::read_write);
    for (const int length : kLengths) {
      tune_one(store, problem_of(length), round);
    }
    constexpr std::size_t kMissedPerRound = 3;
    const std::vector<Problem> missed = read_missed_questions(missed_questions_path(served_));
    for (std::size_t i = 0; i < std::min(kMissedPerRound, missed.size()); ++i) {
      tune_one(store, missed[i], round);
    }
    forget_missed_questions(missed_questions_path(served_), [&](const Problem& problem) {
      const auto match = store.best(problem, device_);
      return match && match->level == MatchLevel::exact;
    });
  }

  /// Puts the tuner's database, or what a disk made of it, where it is served.
  void publish() const { publish(bytes_of(master_)); }
  void publish_damaged(std::mt19937& random) const {
    std::string bytes = bytes_of(master_);
    const std::size_t at = random() % bytes.size();
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.replace(at, std::min<std::size_t>(4096, bytes.size() - at), 4096, '\0');
        break;
      case 3:
        bytes = "no database";
        break;
      default:
        fs::remove(served_);
        return;
    }
    publish(bytes);
  }

 private:
  void publish(const std::string& bytes) const {
    const fs::path draft = directory_ / "draft.db";
    std::ofstream(draft, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    fs::rename(draft, served_);
  }

  /// Falls with each round: a decided winner stands until another one is faster than it was.
  static double time_us(const Variant& variant, int length, unsigned round) {
    const double best_us = 1000.0 * std::pow(0.9, round % kRoundsOfADatabase);
    return variant == kernel(is_wide_best(length, round)) ? best_us : 2.0 * best_us;
  }

  void tune_one(Store& store, const Problem& problem, unsigned round) const {
    const int length = problem.as<AttentionProblem>().seq_q;
    test::NoisyEvaluator evaluator(
        [&](const Variant& variant) { return time_us(variant, length, round); }, round, device_);
    RunInfo run = some_run();
    run.driver_version = "round " + std::to_string(round);  // Results of others are not this one's.
    TuneOptions options{.compile_threads = 1};
    options.variants = {kernel(true), kernel(false)};
    options.run_id = store.begin_run(run);
    QuietProgress progress;
    tune(
        problem, evaluator,
        [&](const Variant& variant) { return key_as_cubin(problem, variant, device_.sm_arch); },
        store, options, progress);
    store.finish_run(options.run_id);
  }

  TempDirectory directory_;
  fs::path master_ = directory_ / "tuned.db";
  fs::path served_ = directory_ / "served.db";
  fs::path exported_ = directory_ / "kernels";
  DeviceInfo device_ = list_devices().front();
};

/// The threads that ask take what processors there are; the one that tunes goes before them.
void give_way() {
  constexpr int kLowPriority = 10;
  // Of this thread alone, as Linux counts.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()),
              getpriority(PRIO_PROCESS, 0) + kLowPriority);
}

class Soak {
 public:
  Soak() { runtime_.note_missed(tuning_.missed()); }

  /// Ends with the process's exit code.
  int run(std::chrono::seconds time) {
    const auto end = Clock::now() + time;
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i](const std::stop_token& stop) { ask(i, stop); });
    }
    std::mt19937 random(29);
    std::vector<double> memory;
    for (unsigned round = 1; Clock::now() < end && verdict_.count() == 0; ++round) {
      begin_round(round, random);
      memory.push_back(resident_mib());
    }
    for (std::jthread& thread : threads) {
      thread.request_stop();
    }
    threads.clear();
    return report(memory, static_cast<double>(time.count()));
  }

 private:
  void begin_round(unsigned round, std::mt19937& random) {
    tuning_.tune_round(round);
    newest_ = round;  // Before anybody can see it.
    for (int i = 0; i < 4; ++i) {
      tuning_.publish_damaged(random);
      refresh_damaged();
    }
    tuning_.publish();
    runtime_.refresh();
    lookup_.refresh();
    oldest_ = round;
    ++refreshes_;
    for (const int length : kLengths) {
      check_answer(length, lookup_.best(problem_of(length), tuning_.device()));
    }
  }

  /// A file that is damaged is refused, and what was read before goes on to answer; one whose
  /// damage lies where nothing is stored answers as if it were sound.
  void refresh_damaged() {
    for (const auto& refresh : {std::function<void()>([this] { runtime_.refresh(); }),
                                std::function<void()>([this] { lookup_.refresh(); })}) {
      try {
        refresh();
        ++accepted_;
      } catch (const Error&) {
        ++refused_;
      }
    }
  }

  void ask(int thread, const std::stop_token& stop) {
    give_way();
    const PrimaryContext context(thread % fake_device_count());
    std::mt19937 random(static_cast<unsigned>(thread));
    CUstream_st* const stream = reinterpret_cast<CUstream_st*>(std::uintptr_t{64});
    long long calls = 0;
    while (!stop.stop_requested()) {
      const bool is_tuned = random() % 16 != 0;
      const int length =
          is_tuned ? kLengths[random() % kLengths.size()] : 128 + static_cast<int>(random() % 2048);
      const unsigned oldest = oldest_;
      try {
        runtime_.attention(call_of(problem_of(length)), stream);
      } catch (const Error& error) {
        verdict_.wrong(std::string("an error: ") + error.what());
        continue;
      }
      check_launch(length, is_tuned, oldest, newest_, thread % fake_device_count());
      ++calls;
    }
    calls_ += calls;
  }

  void check_launch(int length, bool is_tuned, unsigned oldest, unsigned newest, int device) {
    const FakeLaunch launch = fake_last_launch();
    bool is_right = !is_tuned && (launch.grid_x == grid_of(length, true) ||
                                  launch.grid_x == grid_of(length, false));
    for (unsigned round = oldest; is_tuned && round <= newest; ++round) {
      is_right = is_right || launch.grid_x == grid_of(length, is_wide_best(length, round));
    }
    if (!is_right || launch.params.seq_q != length || launch.device != device) {
      verdict_.wrong("length " + std::to_string(length) + " in rounds " + std::to_string(oldest) +
                     " to " + std::to_string(newest) + ": grid " + std::to_string(launch.grid_x) +
                     ", length " + std::to_string(launch.params.seq_q) + ", device " +
                     std::to_string(launch.device));
    }
  }

  void check_answer(int length, const Answer& answer) {
    const bool is_right = answer.variant == kernel(is_wide_best(length, newest_)) &&
                          answer.level == MatchLevel::exact && answer.time_us &&
                          std::isfinite(*answer.time_us);
    if (!is_right) {
      verdict_.wrong("a lookup of length " + std::to_string(length) + ": " +
                     to_key(answer.variant));
    }
  }

  int report(const std::vector<double>& memory, double seconds) const {
    // What grows once, such as the kernels that are loaded, has grown in the first third.
    constexpr double kMostGrowthMib = 32.0;
    const std::size_t settled = memory.size() / 3;
    const double before = memory.empty() ? 0.0 : memory[settled];
    const double after = memory.empty() ? 0.0 : memory.back();
    const bool is_flat = !memory.empty() && after - before < kMostGrowthMib;
    std::printf("launches         %lld, %.0f a second, from %d threads\n", calls_.load(),
                static_cast<double>(calls_) / seconds, kThreads);
    std::printf("rounds of tuning %lld, each published and read\n", refreshes_);
    std::printf("damaged files    %lld: %lld reads refused, %lld as before or sound\n",
                4 * refreshes_, refused_, accepted_);
    std::printf("wrong answers    %lld %s\n", verdict_.count(), verdict_.first().c_str());
    std::printf("memory           %.1f MiB after a third, %.1f MiB at the end: %s\n", before, after,
                is_flat ? "flat" : "GREW");
    std::printf("modules loaded   %lld\n", fake_modules_alive());
    return verdict_.count() == 0 && is_flat && refused_ > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

  Tuning tuning_;
  Runtime runtime_{
      {.database = tuning_.served(), .exported = tuning_.exported(), .may_compile = false}};
  Lookup lookup_{tuning_.served()};
  /// A launch is right by any round from that which was read last to that which may be read.
  std::atomic<unsigned> oldest_ = 0;
  std::atomic<unsigned> newest_ = 0;
  std::atomic<long long> calls_ = 0;
  long long refreshes_ = 0;
  long long refused_ = 0;
  long long accepted_ = 0;
  Verdict verdict_;
};

}  // namespace
}  // namespace swr

int main(int count, char** arguments) {
  const long seconds = count > 1 ? std::strtol(arguments[1], nullptr, 10) : 600;
  if (seconds <= 0) {
    std::fprintf(stderr, "usage: soak [SECONDS]\n");
    return 2;
  }
  return swr::Soak().run(std::chrono::seconds(seconds));
}
