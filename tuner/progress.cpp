// SPDX-License-Identifier: MIT
#include "tuner/progress.h"

#include "tuner/number_text.h"

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

void QuietProgress::begin(const std::string& /*title*/, std::size_t /*total*/) {}
void QuietProgress::advance(const VariantResult& /*result*/) {}
void QuietProgress::end() {}

StreamProgress::StreamProgress(std::ostream& out, bool redraw, Clock clock)
    : out_(out), redraw_(redraw), clock_(std::move(clock)) {}

void StreamProgress::begin(const std::string& title, std::size_t total) {
  total_ = total;
  done_ = 0;
  failed_ = 0;
  dropped_ = 0;
  best_us_ = 0.0;
  started_ = clock_();
  last_write_ = started_;
  out_ << title << "\n" << std::flush;
}

void StreamProgress::advance(const VariantResult& result) {
  ++done_;
  if (result.state == ResultState::constraint) {
    ++dropped_;
  } else if (result.state != ResultState::ok) {
    ++failed_;
  } else if (best_us_ <= 0.0 || result.time_us() < best_us_) {
    best_us_ = result.time_us();
  }
  if (clock_() - last_write_ >= (redraw_ ? kRedrawInterval : kPlainInterval)) {
    write(status());
  }
}

void StreamProgress::end() {
  write(status());
  if (redraw_) {
    out_ << "\n" << std::flush;
  }
}

std::string StreamProgress::status() const {
  const double elapsed_s = Seconds(clock_() - started_).count();
  std::string text = "[" + std::to_string(done_) + "/" + std::to_string(total_) + "]";
  if (done_ > 0 && elapsed_s > 0.0) {
    const double per_s = static_cast<double>(done_) / elapsed_s;
    text += "  " + significant_text(per_s, 3) + " variants/s";
    text += "  ETA " + minutes_text(static_cast<double>(total_ - done_) / per_s);
  }
  if (best_us_ > 0.0) {
    text += "  best " + time_text(best_us_);
  }
  if (dropped_ > 0) {
    text += "  " + std::to_string(dropped_) + " dropped";
  }
  if (failed_ > 0) {
    text += "  " + std::to_string(failed_) + " failed";
  }
  return text;
}

void StreamProgress::write(const std::string& line) {
  // ESC [ K erases what a longer line left behind.
  out_ << (redraw_ ? "\r" : "") << line << (redraw_ ? "\x1b[K" : "\n") << std::flush;
  last_write_ = clock_();
}

}  // namespace swr
