// SPDX-License-Identifier: MIT
// What a person sees while a tuning run works: one line that is redrawn on a terminal, occasional
// plain lines elsewhere.
#pragma once

#include <swr/result.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace swr {

/// A variant as the model ranks it before anything is compiled.
struct RankedGuess {
  Variant variant;
  double time_us = 0.0;
};

/// Told of every step of a tuning run. Called from one thread, but for tick().
class Progress {
 public:
  Progress() = default;
  virtual ~Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  virtual void begin(const std::string& title, std::size_t total) = 0;
  virtual void advance(const VariantResult& result) = 0;
  /// A result that was known from an earlier run; it counts towards the total.
  virtual void known(const VariantResult& result);
  /// A kernel came after it was waited for; `from_cache` when nothing was compiled for it.
  virtual void kernel(bool from_cache);
  /// What goes on while no variant is evaluated, "counting L2 misses of 12 variants"; empty when
  /// variants are evaluated again. Before begin() too.
  virtual void phase(const std::string& doing);
  /// The first of the model's ranking, before begin().
  virtual void ranked(const std::vector<RankedGuess>& first);
  /// Time has passed. Called from any thread, so that waiting can be seen.
  virtual void tick();
  /// The time since begin() in which the device waited for the host, in seconds.
  virtual void device_idle(double idle_s);
  /// Called once after the last advance, also when the run stops early.
  virtual void end() = 0;
};

/// Says nothing.
class QuietProgress final : public Progress {
 public:
  void begin(const std::string& title, std::size_t total) override;
  void advance(const VariantResult& result) override;
  void end() override;
};

/// The line that is redrawn on a terminal, or written now and then elsewhere.
class StatusLine {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// `redraw` overwrites one line (a terminal), which is cut at `width` characters; 0 is any width.
  StatusLine(std::ostream& out, bool redraw, Clock clock, std::size_t width = 0);

  std::chrono::steady_clock::time_point now() const { return clock_(); }
  /// True when the last writing is long enough ago; more often only costs time.
  bool is_due() const;
  void write(const std::string& line);
  /// A line that stays, in place of the one that is redrawn.
  void print(const std::string& line);
  /// What follows starts on a line of its own.
  void end();

 private:
  std::ostream& out_;
  bool redraw_;
  Clock clock_;
  std::size_t width_;
  std::chrono::steady_clock::time_point last_write_;
  bool is_drawn_ = false;  ///< The cursor stands behind a line that is redrawn.
};

/// "  2 crash  1 dropped"; constraint counts variants dropped after compilation.
std::string failures_text(const std::map<ResultState, std::size_t>& failures);

/// How long the rest of a run will take, from what has been done without the cache: kernels that
/// were compiled before come at once, and say nothing about those that were not.
class TimeLeft {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void begin(Time now);
  void kernel(Time now, bool from_cache);
  void evaluated(Time now);
  /// Something else took the time up to now.
  void pass(Time now) { last_ = now; }

  /// Seconds for so many variants more; empty while too little is known: nothing was evaluated, or
  /// the first kernel that the cache does not have is being compiled.
  std::optional<double> seconds(std::size_t variants, Time now) const;
  /// Kernels that came, and of these how many were compiled.
  std::size_t kernels() const { return kernels_; }
  std::size_t compiled() const { return compiled_; }

 private:
  /// The time since the last event, which is the next one's.
  double lap(Time now);

  Time last_;
  std::size_t kernels_ = 0;
  std::size_t compiled_ = 0;
  double compile_s_ = 0.0;
  std::size_t evaluated_ = 0;
  double evaluate_s_ = 0.0;
};

/// Writes done and total, what goes on or variants per second and the time left, the best time so
/// far, the share of time in which the device waited, and failures by state.
class StreamProgress final : public Progress {
 public:
  /// As StatusLine.
  StreamProgress(std::ostream& out, bool redraw,
                 StatusLine::Clock clock = std::chrono::steady_clock::now, std::size_t width = 0);

  void begin(const std::string& title, std::size_t total) override;
  void advance(const VariantResult& result) override;
  void known(const VariantResult& result) override;
  void kernel(bool from_cache) override;
  void phase(const std::string& doing) override;
  void ranked(const std::vector<RankedGuess>& first) override;
  void tick() override;
  void device_idle(double idle_s) override;
  void end() override;

 private:
  void count_best(const VariantResult& result);
  void write_if_due();
  std::string status() const;
  std::string pace(std::size_t left) const;

  std::mutex mutex_;
  // Guarded by mutex_.
  StatusLine line_;
  bool works_ = false;  ///< There is something to show.
  std::string phase_;
  TimeLeft left_;
  std::chrono::steady_clock::time_point started_;
  std::size_t total_ = 0;
  std::size_t done_ = 0;
  std::size_t known_ = 0;
  /// Results of each state but ok.
  std::map<ResultState, std::size_t> failures_;
  double idle_s_ = 0.0;
  double best_us_ = 0.0;  ///< 0 while nothing succeeded.
};

}  // namespace swr
