// SPDX-License-Identifier: MIT
#include "tuner/run/progress.h"

#include "core/number_text.h"
#include "core/operation.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace swr {
namespace {

using Seconds = std::chrono::duration<double>;

/// Redrawing more often only costs time; plain lines end up in logs, so they are rare.
constexpr Seconds kRedrawInterval{0.1};
constexpr Seconds kPlainInterval{5.0};

std::string minutes_text(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  const std::string rest = std::to_string(whole % 60);
  return std::to_string(whole / 60) + ":" + (rest.size() < 2 ? "0" : "") + rest;
}

}  // namespace

std::string failures_text(const std::map<ResultState, std::size_t>& failures) {
  std::string text;
  for (const auto& [state, count] : failures) {
    text += "  " + std::to_string(count) + " " +
            (state == ResultState::constraint ? "dropped" : std::string(to_string(state)));
  }
  return text;
}

void Progress::known(const VariantResult& /*result*/) {}
void Progress::kernel(bool /*from_cache*/) {}
void Progress::phase(const std::string& /*doing*/) {}
void Progress::ranked(const std::vector<RankedGuess>& /*first*/) {}
void Progress::tick() {}
void Progress::device_idle(double /*idle_s*/) {}

void QuietProgress::begin(const std::string& /*title*/, std::size_t /*total*/) {}
void QuietProgress::advance(const VariantResult& /*result*/) {}
void QuietProgress::end() {}

StatusLine::StatusLine(std::ostream& out, bool redraw, Clock clock, std::size_t width)
    : out_(out),
      redraw_(redraw),
      clock_(std::move(clock)),
      width_(redraw ? width : 0),
      last_write_(clock_()) {}

bool StatusLine::is_due() const {
  return clock_() - last_write_ >= (redraw_ ? kRedrawInterval : kPlainInterval);
}

void StatusLine::write(const std::string& line) {
  // ESC [ K erases what a longer line left behind.
  // A line that the terminal breaks cannot be redrawn.
  const std::string fitted = width_ > 0 ? line.substr(0, width_ - 1) : line;
  out_ << (redraw_ ? "\r" : "") << fitted << (redraw_ ? "\x1b[K" : "\n") << std::flush;
  last_write_ = clock_();
  is_drawn_ = redraw_;
}

void StatusLine::print(const std::string& line) {
  out_ << (is_drawn_ ? "\r" : "") << line << (is_drawn_ ? "\x1b[K\n" : "\n") << std::flush;
  last_write_ = clock_();
  is_drawn_ = false;
}

void StatusLine::end() {
  if (is_drawn_) {
    out_ << "\n" << std::flush;
  }
  is_drawn_ = false;
}

void TimeLeft::begin(Time now) {
  *this = TimeLeft{};
  last_ = now;
}

double TimeLeft::lap(Time now) { return Seconds(now - std::exchange(last_, now)).count(); }

void TimeLeft::kernel(Time now, bool from_cache) {
  const double waited_s = lap(now);
  ++kernels_;
  if (!from_cache) {
    ++compiled_;
    compile_s_ += waited_s;
  }
}

void TimeLeft::evaluated(Time now) {
  evaluate_s_ += lap(now);
  ++evaluated_;
}

std::optional<double> TimeLeft::seconds(std::size_t variants, Time now) const {
  constexpr double kIsCompiling = 1.0;
  const double pending_s = Seconds(now - last_).count();
  const bool is_unknown = evaluated_ == 0 || (compiled_ == 0 && pending_s > kIsCompiling);
  if (is_unknown) {
    return std::nullopt;
  }
  const auto left = static_cast<double>(variants);
  const auto evaluated = static_cast<double>(evaluated_);
  const double evaluate_s = left * evaluate_s_ / evaluated;
  if (compiled_ == 0) {
    return evaluate_s;
  }
  // Several variants may share a kernel, and kernels are there ahead of their variants.
  const double ahead = static_cast<double>(kernels_) - evaluated;
  const double kernels_left = std::max(
      0.0, left * std::min(1.0, static_cast<double>(kernels_) / evaluated) - std::max(0.0, ahead));
  return evaluate_s + kernels_left * compile_s_ / static_cast<double>(compiled_);
}

StreamProgress::StreamProgress(std::ostream& out, bool redraw, StatusLine::Clock clock,
                               std::size_t width)
    : line_(out, redraw, std::move(clock), width) {}

void StreamProgress::begin(const std::string& title, std::size_t total) {
  const std::lock_guard lock(mutex_);
  total_ = total;
  done_ = 0;
  known_ = 0;
  failures_.clear();
  idle_s_ = 0.0;
  best_us_ = 0.0;
  phase_.clear();
  works_ = true;
  started_ = line_.now();
  left_.begin(started_);
  line_.print(title);
}

void StreamProgress::advance(const VariantResult& result) {
  const std::lock_guard lock(mutex_);
  ++done_;
  left_.evaluated(line_.now());
  count_best(result);
  write_if_due();
}

void StreamProgress::known(const VariantResult& result) {
  const std::lock_guard lock(mutex_);
  ++known_;
  left_.pass(line_.now());
  count_best(result);
}

void StreamProgress::kernel(bool from_cache) {
  const std::lock_guard lock(mutex_);
  left_.kernel(line_.now(), from_cache);
  write_if_due();
}

void StreamProgress::phase(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  left_.pass(line_.now());
  phase_ = doing;
  if (!doing.empty()) {
    if (!works_) {
      total_ = done_ = known_ = 0;
      failures_.clear();
      idle_s_ = best_us_ = 0.0;
      works_ = true;
    }
    line_.write(status());
  }
}

void StreamProgress::ranked(const std::vector<RankedGuess>& first) {
  const std::lock_guard lock(mutex_);
  if (first.empty()) {
    return;
  }
  line_.print("by the model, before anything is compiled:");
  for (const RankedGuess& guess : first) {
    line_.print("  " + time_text(guess.time_us) + "  " +
                guess.variant.operation().description(guess.variant));
  }
}

void StreamProgress::tick() {
  const std::lock_guard lock(mutex_);
  if (works_) {
    write_if_due();
  }
}

void StreamProgress::device_idle(double idle_s) {
  const std::lock_guard lock(mutex_);
  idle_s_ = idle_s;
}

void StreamProgress::write_if_due() {
  if (line_.is_due()) {
    line_.write(status());
  }
}

void StreamProgress::count_best(const VariantResult& result) {
  if (result.state != ResultState::ok) {
    ++failures_[result.state];
  } else if (best_us_ <= 0.0 || result.time_us() < best_us_) {
    best_us_ = result.time_us();
  }
}

void StreamProgress::end() {
  const std::lock_guard lock(mutex_);
  phase_.clear();
  line_.write(status());
  line_.end();
  works_ = false;
}

/// What goes on now, or how fast it goes and how long it will take.
std::string StreamProgress::pace(std::size_t left) const {
  if (!phase_.empty()) {
    return "  " + phase_;
  }
  const double elapsed_s = Seconds(line_.now() - started_).count();
  if (done_ == 0) {
    const bool waits = left > 0 && elapsed_s > 0.0;
    const std::string ready =
        left_.kernels() > 0 ? ", " + std::to_string(left_.kernels()) + " ready" : "";
    return waits ? "  compiling the first kernels" + ready : "";
  }
  if (elapsed_s <= 0.0) {
    return "";
  }
  const auto seconds = left_.seconds(left, line_.now());
  return "  " + significant_text(static_cast<double>(done_) / elapsed_s, 3) + " variants/s" +
         (seconds ? "  ETA " + minutes_text(*seconds) : "  compiling");
}

std::string StreamProgress::status() const {
  const double elapsed_s = Seconds(line_.now() - started_).count();
  const std::size_t behind = done_ + known_;
  // What a constraint drops after compilation comes on top of a search's budget.
  const std::size_t total = std::max(total_, behind);
  std::string text =
      total > 0 ? "[" + std::to_string(behind) + "/" + std::to_string(total) + "]" : "...";
  text += pace(total - behind);
  if (best_us_ > 0.0) {
    text += "  best " + time_text(best_us_);
  }
  if (idle_s_ > 0.0 && elapsed_s > 0.0) {
    text += "  idle " + percent_text(std::min(1.0, idle_s_ / elapsed_s));
  }
  if (known_ > 0) {
    text += "  " + std::to_string(known_) + " known";
  }
  return text + failures_text(failures_);
}

}  // namespace swr
