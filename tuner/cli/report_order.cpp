// SPDX-License-Identifier: MIT
#include "tuner/cli/report_order.h"

#include <utility>

namespace swr::cli {

ReportOrder::ReportOrder(ReportSink& sink, ProgressSinks& progress, Note note,
                         std::vector<std::size_t> order)
    : sink_(sink),
      progress_(progress),
      note_(std::move(note)),
      is_ordered_(!order.empty()),
      order_(order.begin(), order.end()) {}

void ReportOrder::add(std::size_t place, const TuneReport& report) {
  const std::lock_guard lock(mutex_);
  held_[place].reports.push_back(report);
  if (!is_ordered_) {
    pass_on(held_[place].reports);
  }
}

void ReportOrder::done(std::size_t place, std::optional<Agreement> agreement) {
  const std::lock_guard lock(mutex_);
  held_[place].is_done = true;
  if (agreement) {
    agreements_.insert_or_assign(place, *std::move(agreement));
  }
  while (!order_.empty() && held_[order_.front()].is_done) {
    pass_on(held_[order_.front()].reports);
    order_.pop_front();
  }
}

void ReportOrder::restart(std::size_t place) {
  const std::lock_guard lock(mutex_);
  held_.erase(place);
}

void ReportOrder::finish() {
  const std::lock_guard lock(mutex_);
  for (const std::size_t place : order_) {
    pass_on(held_[place].reports);
  }
  std::vector<Agreement> agreements;
  for (auto& [place, agreement] : agreements_) {
    agreements.push_back(std::move(agreement));
  }
  if (!agreements.empty()) {
    sink_.add(agreements);
  }
}

void ReportOrder::pass_on(std::vector<TuneReport>& reports) {
  for (const TuneReport& report : std::exchange(reports, {})) {
    progress_.quietly([&] { sink_.add(report, note_(report)); });
  }
}

}  // namespace swr::cli
