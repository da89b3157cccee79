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
#include <string>

namespace swr {

/// Told of every step of a tuning run. Called from one thread.
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

  /// `redraw` overwrites one line (a terminal).
  StatusLine(std::ostream& out, bool redraw, Clock clock);

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
  std::chrono::steady_clock::time_point last_write_;
  bool is_drawn_ = false;  ///< The cursor stands behind a line that is redrawn.
};

/// "  2 crash  1 dropped"; constraint counts variants dropped after compilation.
std::string failures_text(const std::map<ResultState, std::size_t>& failures);

/// Writes done and total, variants per second, the time left, the best time so far, the share of
/// time in which the device waited, and failures by state.
class StreamProgress final : public Progress {
 public:
  /// As StatusLine.
  StreamProgress(std::ostream& out, bool redraw,
                 StatusLine::Clock clock = std::chrono::steady_clock::now);

  void begin(const std::string& title, std::size_t total) override;
  void advance(const VariantResult& result) override;
  void known(const VariantResult& result) override;
  void device_idle(double idle_s) override;
  void end() override;

 private:
  void count_best(const VariantResult& result);
  std::string status() const;

  StatusLine line_;
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
