// SPDX-License-Identifier: MIT
#include "operations/attention/model/sm_timeline.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <utility>

namespace swr {
namespace {

/// Share of the SMs that are dealt CTAs to the full before the rest in the uneven deal: 66 of an
/// H200's 132, as many as belong to one L2 partition. Persistent launches there with 72 to 120
/// Q tiles more than places take as long as if two of these Q tiles met on an SM; with 24 to 48
/// more they do not (experiments/l2_model).
constexpr int kFirstSmsPercent = 50;

/// Share of the launches that are dealt so; chosen by spaces of an H200 (experiments/l2_model).
constexpr double kUnevenShare = 0.8;
constexpr double kUnevenShareMasked = 0.4;

/// A CTA on its SM.
struct Resident {
  long long cta = 0;
  int iteration = 0;
  bool computing = false;   ///< False while the Q tile is on its way.
  double begins_at = 0.0;   ///< When the Q tile has come.
  double steps_left = 0.0;  ///< Of the Q tile.
};

struct Sm {
  double now = 0.0;
  long long steps = 0;
  std::vector<Resident> residents{};  ///< Oldest first.

  std::size_t computing() const {
    return static_cast<std::size_t>(std::count_if(residents.begin(), residents.end(),
                                                  [](const auto& r) { return r.computing; }));
  }
};

class Simulation {
 public:
  /// The first `first_sms` SMs are dealt all the CTAs they hold before the others get any, each of
  /// the two parts breadth first.
  Simulation(const ScheduleShape& shape, const TimelineCosts& costs, int first_sms);
  Timeline run();

 private:
  void deal_breadth_first(std::span<Sm> sms);
  bool start_tile(Sm& sm, Resident& resident);
  bool start_next(Sm& sm);
  /// Whether what an SM does next hangs on the others: they draw from the same work.
  bool shares_work() const {
    return next_cta_ < shape_.ctas || shape_.persistence == Persistence::dynamic;
  }
  double next_event(const Sm& sm) const;
  void advance(Sm& sm, double clocks) const;
  void settle(Sm& sm);

  ScheduleShape shape_;
  TimelineCosts costs_;
  int masked_steps_;  ///< Most steps of a Q tile that are masked score by score.
  int first_sms_;
  long long next_cta_ = 0;
  long long drawn_ = 0;  ///< Tiles of Persistence::dynamic beyond the first of each CTA.
  std::vector<Sm> sms_;
  std::vector<std::vector<double>> pace_;  ///< [k - 1][age]: steps per clock beside k - 1 others.
};

Simulation::Simulation(const ScheduleShape& shape, const TimelineCosts& costs, int first_sms)
    : shape_(shape),
      costs_(costs),
      masked_steps_(shape.causal                       ? ceil_div(shape.tile_m, shape.tile_n)
                    : shape.seq_kv % shape.tile_n != 0 ? 1
                                                       : 0),
      first_sms_(first_sms),
      sms_(static_cast<std::size_t>(shape.sm_count)) {
  for (int count = 1; count <= shape.ctas_per_sm; ++count) {
    std::vector<double> shares(static_cast<std::size_t>(count));
    double sum = 0.0;
    for (std::size_t age = 0; age < shares.size(); ++age) {
      sum += shares[age] = std::pow(costs.younger_share, static_cast<double>(age));
    }
    for (double& share : shares) {
      share *= count / sum / costs.step_clocks[static_cast<std::size_t>(count) - 1];
    }
    pace_.push_back(std::move(shares));
  }
}

/// Gives the CTA its next Q tile; false when it is done.
bool Simulation::start_tile(Sm& sm, Resident& resident) {
  const long long number = next_work_item(shape_, resident.cta, resident.iteration, drawn_);
  if (number < 0) {
    return false;
  }
  const WorkItem item = work_item_at(shape_, number);
  const int steps = item.kv_tiles.count;
  const int masked_steps = item.split == shape_.kv_splits - 1 ? masked_steps_ : 0;
  resident.computing = false;
  resident.begins_at = sm.now + costs_.tile_delay_clocks;
  resident.steps_left =
      std::max(1, steps) + costs_.masked_extra_steps * std::min(steps, masked_steps);
  sm.steps += std::max(1, steps);
  return true;
}

/// Puts the next CTA of the launch on the SM; false when there is none.
bool Simulation::start_next(Sm& sm) {
  while (next_cta_ < shape_.ctas) {
    Resident resident{.cta = next_cta_++};
    if (start_tile(sm, resident)) {
      sm.residents.push_back(resident);
      return true;
    }
  }
  return false;
}

void Simulation::deal_breadth_first(std::span<Sm> sms) {
  for (int round = 0; round < shape_.ctas_per_sm; ++round) {
    for (Sm& sm : sms) {
      start_next(sm);
    }
  }
}

double Simulation::next_event(const Sm& sm) const {
  const std::size_t computing = sm.computing();
  double next = std::numeric_limits<double>::max();
  std::size_t age = 0;
  for (const Resident& resident : sm.residents) {
    next = std::min(next, resident.computing
                              ? sm.now + resident.steps_left / pace_[computing - 1][age++]
                              : resident.begins_at);
  }
  return next;
}

void Simulation::advance(Sm& sm, double clocks) const {
  const std::size_t computing = sm.computing();
  std::size_t age = 0;
  for (Resident& resident : sm.residents) {
    if (resident.computing) {
      resident.steps_left -= (clocks - sm.now) * pace_[computing - 1][age++];
    }
  }
  sm.now = clocks;
}

/// Lets CTAs whose Q tile has come begin, and gives new work to those that are done.
void Simulation::settle(Sm& sm) {
  constexpr double kRounding = 1e-9;
  for (std::size_t i = 0; i < sm.residents.size();) {
    Resident& resident = sm.residents[i];
    if (!resident.computing) {
      resident.computing = resident.begins_at <= sm.now;
    } else if (resident.steps_left <= kRounding) {
      ++resident.iteration;
      if (!start_tile(sm, resident)) {
        sm.residents.erase(sm.residents.begin() + static_cast<std::ptrdiff_t>(i));
        start_next(sm);
        continue;
      }
    }
    ++i;
  }
}

Timeline Simulation::run() {
  const std::span<Sm> sms(sms_);
  deal_breadth_first(sms.first(static_cast<std::size_t>(first_sms_)));
  deal_breadth_first(sms.subspan(static_cast<std::size_t>(first_sms_)));
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  for (std::size_t i = 0; i < sms_.size(); ++i) {
    if (!sms_[i].residents.empty()) {
      events.emplace(next_event(sms_[i]), i);
    }
  }
  Timeline timeline;
  while (!events.empty()) {
    const std::size_t i = events.top().second;
    events.pop();
    Sm& sm = sms_[i];
    do {
      advance(sm, next_event(sm));
      settle(sm);
    } while (!sm.residents.empty() && !shares_work());
    timeline.clocks = std::max(timeline.clocks, sm.now);
    if (!sm.residents.empty()) {
      events.emplace(next_event(sm), i);
    }
  }
  for (const Sm& sm : sms_) {
    timeline.busiest_sm_steps = std::max(timeline.busiest_sm_steps, sm.steps);
  }
  return timeline;
}

}  // namespace

Timeline run_timeline(const ScheduleShape& shape, const TimelineCosts& costs) {
  Timeline timeline = Simulation(shape, costs, shape.sm_count).run();
  if (shape.ctas_per_sm > 1) {
    const int first_sms = shape.sm_count * kFirstSmsPercent / 100;
    const double uneven = Simulation(shape, costs, first_sms).run().clocks;
    const double share = shape.causal ? kUnevenShareMasked : kUnevenShare;
    timeline.clocks += share * (uneven - timeline.clocks);
  }
  return timeline;
}

}  // namespace swr
