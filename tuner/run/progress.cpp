// SPDX-License-Identifier: MIT
#include "tuner/run/progress.h"

#include "core/number_text.h"

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
void Progress::device_idle(double /*idle_s*/) {}

void QuietProgress::begin(const std::string& /*title*/, std::size_t /*total*/) {}
void QuietProgress::advance(const VariantResult& /*result*/) {}
void QuietProgress::end() {}

StatusLine::StatusLine(std::ostream& out, bool redraw, Clock clock)
    : out_(out), redraw_(redraw), clock_(std::move(clock)), last_write_(clock_()) {}

bool StatusLine::is_due() const {
  return clock_() - last_write_ >= (redraw_ ? kRedrawInterval : kPlainInterval);
}

void StatusLine::write(const std::string& line) {
  // ESC [ K erases what a longer line left behind.
  out_ << (redraw_ ? "\r" : "") << line << (redraw_ ? "\x1b[K" : "\n") << std::flush;
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

StreamProgress::StreamProgress(std::ostream& out, bool redraw, StatusLine::Clock clock)
    : line_(out, redraw, std::move(clock)) {}

void StreamProgress::begin(const std::string& title, std::size_t total) {
  total_ = total;
  done_ = 0;
  known_ = 0;
  failures_.clear();
  idle_s_ = 0.0;
  best_us_ = 0.0;
  started_ = line_.now();
  line_.print(title);
}

void StreamProgress::advance(const VariantResult& result) {
  ++done_;
  count_best(result);
  if (line_.is_due()) {
    line_.write(status());
  }
}

void StreamProgress::known(const VariantResult& result) {
  ++known_;
  count_best(result);
}

void StreamProgress::device_idle(double idle_s) { idle_s_ = idle_s; }

void StreamProgress::count_best(const VariantResult& result) {
  if (result.state != ResultState::ok) {
    ++failures_[result.state];
  } else if (best_us_ <= 0.0 || result.time_us() < best_us_) {
    best_us_ = result.time_us();
  }
}

void StreamProgress::end() {
  line_.write(status());
  line_.end();
}

std::string StreamProgress::status() const {
  const double elapsed_s = Seconds(line_.now() - started_).count();
  const std::size_t behind = done_ + known_;
  // What a constraint drops after compilation comes on top of a search's budget.
  const std::size_t total = std::max(total_, behind);
  std::string text = "[" + std::to_string(behind) + "/" + std::to_string(total) + "]";
  if (done_ > 0 && elapsed_s > 0.0) {
    const double per_s = static_cast<double>(done_) / elapsed_s;
    text += "  " + significant_text(per_s, 3) + " variants/s";
    text += "  ETA " + minutes_text(static_cast<double>(total - behind) / per_s);
  }
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
