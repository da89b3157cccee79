// SPDX-License-Identifier: MIT
#include "tuner/model/sm_timeline.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace swr {
namespace {

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
  Simulation(const ScheduleShape& shape, const TimelineCosts& costs);
  Timeline run();

 private:
  bool start_tile(Sm& sm, Resident& resident) const;
  bool start_next(Sm& sm);
  void deal();
  double next_event(const Sm& sm) const;
  void advance(Sm& sm, double clocks) const;
  void settle(Sm& sm);

  ScheduleShape shape_;
  TimelineCosts costs_;
  SequenceShape sequence_;
  int heads_;
  int q_tiles_per_head_;
  long long tiles_;
  int masked_steps_;  ///< Most steps of a Q tile that are masked score by score.
  long long next_cta_ = 0;
  std::vector<Sm> sms_;
  std::vector<std::vector<double>> pace_;  ///< [k - 1][age]: steps per clock beside k - 1 others.
};

Simulation::Simulation(const ScheduleShape& shape, const TimelineCosts& costs)
    : shape_(shape),
      costs_(costs),
      sequence_{shape.seq_q, shape.seq_kv, shape.causal},
      heads_(shape.batch * shape.heads_q),
      q_tiles_per_head_(ceil_div(shape.seq_q, shape.tile_m)),
      tiles_(static_cast<long long>(heads_) * q_tiles_per_head_),
      masked_steps_(shape.causal                       ? ceil_div(shape.tile_m, shape.tile_n)
                    : shape.seq_kv % shape.tile_n != 0 ? 1
                                                       : 0),
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
bool Simulation::start_tile(Sm& sm, Resident& resident) const {
  const long long linear =
      cta_tile(shape_.persistence, resident.cta, shape_.ctas, resident.iteration, tiles_);
  if (linear < 0) {
    return false;
  }
  const QTile tile = map_tile(linear, q_tiles_per_head_, heads_, shape_.section_heads);
  const int steps = kv_tile_count(tile.index, shape_.tile_m, shape_.tile_n, sequence_);
  resident.computing = false;
  resident.begins_at = sm.now + costs_.tile_delay_clocks;
  resident.steps_left =
      std::max(1, steps) + costs_.masked_extra_steps * std::min(steps, masked_steps_);
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

/// CTAs are dealt breadth first.
void Simulation::deal() {
  for (int round = 0; round < shape_.ctas_per_sm; ++round) {
    for (Sm& sm : sms_) {
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
  deal();
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  for (std::size_t i = 0; i < sms_.size(); ++i) {
    if (!sms_[i].residents.empty()) {
      events.emplace(next_event(sms_[i]), i);
    }
  }
  Timeline timeline;
  while (!events.empty()) {
    const auto [clocks, i] = events.top();
    events.pop();
    advance(sms_[i], clocks);
    settle(sms_[i]);
    timeline.clocks = clocks;
    if (!sms_[i].residents.empty()) {
      events.emplace(next_event(sms_[i]), i);
    }
  }
  for (const Sm& sm : sms_) {
    timeline.busiest_sm_steps = std::max(timeline.busiest_sm_steps, sm.steps);
  }
  return timeline;
}

}  // namespace

Timeline run_timeline(const ScheduleShape& shape, const TimelineCosts& costs) {
  return Simulation(shape, costs).run();
}

}  // namespace swr
