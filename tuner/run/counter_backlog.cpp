// SPDX-License-Identifier: MIT
#include "tuner/run/counter_backlog.h"

#include "tuner/run/stages.h"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace swr {
namespace {

constexpr std::string_view kNotCountedYet = "not counted yet";

}  // namespace

void CounterBacklog::mark(Measurement& measurement) {
  measurement.counters_missing_because = kNotCountedYet;
}

bool CounterBacklog::lacks(const VariantResult& result) {
  const Measurement* measurement = result.measurement();
  return measurement != nullptr && result.state == ResultState::ok &&
         measurement->counters_missing_because == kNotCountedYet;
}

void CounterBacklog::add(std::size_t place, long long row_id,
                         std::shared_ptr<const CompiledKernel> kernel) {
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kCountEvery{20};
  if (uncounted_.empty()) {
    waiting_since_ = steady_clock::now();
  }
  uncounted_.push_back({place, row_id, std::move(kernel)});
  if (steady_clock::now() - waiting_since_ >= kCountEvery) {
    count();
  }
}

void CounterBacklog::count() {
  const PhaseTimer timer(report_.times.count_s);
  const std::vector<Uncounted> waiting = std::exchange(uncounted_, {});
  std::vector<Contender> contenders;
  for (const Uncounted& one : waiting) {
    contenders.push_back({report_.results[one.place].variant, one.kernel.get()});
  }
  if (contenders.empty()) {
    return;
  }
  progress_.phase("counting L2 misses of " + std::to_string(contenders.size()) + " variants");
  std::vector<CounterReading> readings = evaluator_.count(report_.problem, contenders);
  for (std::size_t i = 0; i < readings.size(); ++i) {
    Measurement& measurement = std::get<Measurement>(report_.results[waiting[i].place].outcome);
    measurement.counters = readings[i].counters;
    measurement.counters_missing_because = std::move(readings[i].missing_because);
  }
  record(waiting);
}

void CounterBacklog::record(const std::vector<Uncounted>& counted) {
  const PhaseTimer timer(report_.times.record_s);
  for (const Uncounted& one : counted) {
    store_.record_counters(one.row_id, *report_.results[one.place].measurement());
  }
}

}  // namespace swr
