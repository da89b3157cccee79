// SPDX-License-Identifier: MIT
#include "tuner/run/range_search.h"

#include "core/operation.h"
#include <swr/constraints.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace swr {
namespace {

/// Below it a gap is left as it is.
constexpr double kTolerance = 0.01;
/// What a gap between lengths of one best variant is thought to lose: the best may change and
/// change back inside.
constexpr double kUnseenLossPerOctave = 0.01;
/// The longest length is left until less may be lost elsewhere than up to it: tuning it can take
/// most of a run. What takes this much less comes first.
constexpr double kCheapShare = 64.0;
/// Of a gap of which nothing is known.
constexpr double kUnknownLoss = 1.0;

}  // namespace

std::vector<int> lengths_between(int low, int high) {
  constexpr long long kPerOctave = 8;
  std::vector<int> lengths{low};
  for (long long octave = 1; octave <= high; octave *= 2) {
    for (long long eighth = 0; eighth < kPerOctave; ++eighth) {
      const long long length = octave + octave * eighth / kPerOctave;
      if (length > lengths.back() && length < high) {
        lengths.push_back(static_cast<int>(length));
      }
    }
  }
  if (high > low) {
    lengths.push_back(high);
  }
  return lengths;
}

RangeSearch::RangeSearch(std::span<const Problem> problems, std::vector<int> lengths,
                         DeviceInfo device)
    : problems_(problems), lengths_(std::move(lengths)), device_(std::move(device)) {}

std::optional<std::size_t> RangeSearch::next() const {
  const std::size_t last = lengths_.size() - 1;
  for (const std::size_t end : {std::size_t{0}, cheap_end()}) {
    if (!is_tried(end)) {
      return end;
    }
  }
  std::optional<std::size_t> most;
  double most_loss = kTolerance;
  if (!is_tried(last)) {
    most = last;
    most_loss = kUnseenLossPerOctave * octaves(cheap_end(), last);
  }
  for (auto low = tuned_.begin(); low != tuned_.end(); ++low) {
    const auto high = std::next(low);
    if (high == tuned_.end() || high->first == low->first + 1) {
      continue;
    }
    const std::size_t place = dividing_place(low, high);
    const double loss = suspected_loss(low, high);
    if (loss > most_loss && !failed_.contains(place)) {
      most = place;
      most_loss = loss;
    }
  }
  return most;
}

/// The longest length that takes little beside the last one.
std::size_t RangeSearch::cheap_end() const {
  const double most = flop_count(problems_.back()) / kCheapShare;
  std::size_t place = 0;
  for (std::size_t next = 1; next < problems_.size() && flop_count(problems_[next]) <= most;
       ++next) {
    place = next;
  }
  return place;
}

std::vector<Variant> RangeSearch::rivals(std::size_t place) const {
  std::vector<Variant> rivals;
  const auto above = tuned_.upper_bound(place);
  const auto add = [&](const Tuned& neighbour) {
    if (!check_constraints(problems_[place], neighbour.best, device_)) {
      rivals.push_back(neighbour.best);
    }
  };
  if (above != tuned_.end()) {
    add(above->second);
  }
  if (above != tuned_.begin()) {
    add(std::prev(above)->second);
  }
  return rivals;
}

void RangeSearch::learn(std::size_t place, const TuneReport& report) {
  const VariantResult* const best = report.best();
  if (best == nullptr) {
    failed_[place] = true;
    return;
  }
  Tuned found{.best = best->variant, .times_us = comparable_times_us(report), .held_out_loss = {}};
  found.best_us = found.times_us.at(best->variant);
  for (const VariantResult& result : report.results) {
    if (result.state != ResultState::ok) {
      found.times_us.erase(result.variant);
    }
  }
  // The ends leave out nothing: nobody answers for what is beyond the lengths that are tuned.
  if (!tuned_.empty() && tuned_.begin()->first < place && place < tuned_.rbegin()->first) {
    found.held_out_loss = loss_of(nearest(place)->second.best, found);
  }
  tuned_.insert_or_assign(place, std::move(found));
}

std::vector<RangePart> RangeSearch::parts() const {
  std::vector<RangePart> parts;
  for (auto at = tuned_.begin(); at != tuned_.end(); ++at) {
    const auto after = std::next(at);
    const int length = lengths_[at->first];
    // Equally near ones are answered by the smaller.
    const int last =
        after == tuned_.end()
            ? length
            : static_cast<int>(std::floor(std::sqrt(1.0 * length * lengths_[after->first])));
    const bool goes_on = !parts.empty() && parts.back().variant == at->second.best;
    if (!goes_on) {
      parts.push_back(
          {.from = parts.empty() ? length : parts.back().to + 1, .variant = at->second.best});
    }
    RangePart& part = parts.back();
    part.to = last;
    const auto& held_out = at->second.held_out_loss;
    if (held_out && *held_out >= part.held_out_loss.value_or(0.0)) {
      part.held_out = length;
      part.held_out_loss = held_out;
    }
    if (!goes_on && at != tuned_.begin()) {
      const auto edge = edge_loss(std::prev(at), at);
      part.edge_loss = edge;
      RangePart& before = *std::prev(parts.end(), 2);
      before.edge_loss = before.edge_loss && edge
                             ? std::optional(std::max(*before.edge_loss, *edge))
                             : std::nullopt;
    } else if (!goes_on) {
      part.edge_loss = 0.0;
    }
  }
  return parts;
}

/// How much somewhere between two tuned neighbours may lose by the answer of the nearer one.
double RangeSearch::suspected_loss(Place low, Place high) const {
  const double unseen = kUnseenLossPerOctave * octaves(low->first, high->first);
  if (low->second.best == high->second.best) {
    return unseen;
  }
  return std::max(unseen, edge_loss(low, high).value_or(kUnknownLoss));
}

/// The most that either's best loses at the other; empty where it was not tried there.
std::optional<double> RangeSearch::edge_loss(Place low, Place high) const {
  const auto of_low = loss_of(low->second.best, high->second);
  const auto of_high = loss_of(high->second.best, low->second);
  return of_low && of_high ? std::optional(std::max(*of_low, *of_high)) : std::nullopt;
}

/// Where the closed form has the best of one side pass that of the other, else the middle.
std::size_t RangeSearch::dividing_place(Place low, Place high) const {
  const std::size_t middle = (low->first + high->first) / 2;
  if (low->second.best == high->second.best) {
    return middle;
  }
  const auto low_is_faster = [&](std::size_t place) -> std::optional<bool> {
    const Operation& operation = problems_[place].operation();
    const auto of_low = operation.quick_time_us(problems_[place], low->second.best, device_);
    const auto of_high = operation.quick_time_us(problems_[place], high->second.best, device_);
    return of_low && of_high ? std::optional(*of_low < *of_high) : std::nullopt;
  };
  // By halves; it passes where it says that each is faster on its own side.
  if (low_is_faster(low->first) != true || low_is_faster(high->first) != false) {
    return middle;
  }
  std::size_t from = low->first;
  std::size_t to = high->first;
  while (to - from > 1) {
    const std::size_t between = (from + to) / 2;
    (low_is_faster(between) == true ? from : to) = between;
  }
  // Not beside an end, where it would divide nothing off.
  const std::size_t quarter = (high->first - low->first) / 4;
  return std::clamp(to, low->first + std::max<std::size_t>(1, quarter),
                    high->first - std::max<std::size_t>(1, quarter));
}

std::optional<double> RangeSearch::loss_of(const Variant& variant, const Tuned& at) const {
  const auto time = at.times_us.find(variant);
  return time == at.times_us.end() ? std::nullopt
                                   : std::optional(std::max(0.0, time->second / at.best_us - 1.0));
}

/// The tuned place whose length is nearest. Requires: there is one.
RangeSearch::Place RangeSearch::nearest(std::size_t place) const {
  const auto above = tuned_.lower_bound(place);
  if (above == tuned_.begin()) {
    return above;
  }
  const auto below = std::prev(above);
  return above == tuned_.end() || octaves(below->first, place) <= octaves(place, above->first)
             ? below
             : above;
}

double RangeSearch::octaves(std::size_t low, std::size_t high) const {
  return std::log2(1.0 * lengths_[high] / lengths_[low]);
}

}  // namespace swr
