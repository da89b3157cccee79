// SPDX-License-Identifier: MIT
#include "tuner/model/set_associative_cache.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace swr {
namespace {

constexpr int kGroupsPerCapacity = 64;
/// Survival is tabulated up to so many capacities used, in so fine steps.
constexpr double kTableEnd = 4.0;
constexpr double kTableStep = 1.0 / 128;

}  // namespace

/// The lines that others use of a set are taken as normal, with half a line to correct for their
/// being whole. They are a sample of those that the set holds of the footprint, which gives the
/// variance of a binomial; the evenness of the hash ends within a page, where a set gets a line
/// more or less.
double survival(double used_sectors, const SetShape& shape) {
  constexpr double kPageDispersion = 0.1;
  const double lines = shape.ways * used_sectors / shape.capacity_sectors;
  const double outside = std::max(0.0, 1.0 - used_sectors / shape.footprint_sectors);
  const double dispersion = kPageDispersion + (1.0 - kPageDispersion) * outside;
  const double deviation = std::sqrt(std::max(dispersion * lines, 1e-12));
  return 0.5 * std::erfc((lines - shape.ways + 0.5) / deviation / std::sqrt(2.0));
}

SetAssociativeCache::SetAssociativeCache(long long effective_sectors, int ways,
                                         long long footprint_sectors, int objects)
    // A scan to and fro finds ways - 1/2 lines of a set again: the line itself takes a place.
    : shape_{.capacity_sectors = static_cast<double>(effective_sectors) * ways / (ways - 0.5),
             .ways = ways,
             .footprint_sectors = static_cast<double>(footprint_sectors)},
      group_sectors_(std::max(1LL, effective_sectors / kGroupsPerCapacity)),
      group_of_(static_cast<std::size_t>(objects), -1) {
  for (double used = kTableStep / 2; used < kTableEnd; used += kTableStep) {
    survival_.push_back(survival(used * shape_.capacity_sectors, shape_));
  }
}

double SetAssociativeCache::survival_after(double sectors) const {
  const double place = sectors / shape_.capacity_sectors / kTableStep;
  return place < static_cast<double>(survival_.size()) ? survival_[static_cast<std::size_t>(place)]
                                                       : 0.0;
}

bool SetAssociativeCache::touch(int object, int sectors) {
  std::int32_t& group = group_of_[static_cast<std::size_t>(object)];
  bool hit = false;
  if (group >= 0) {
    Group& last = groups_[static_cast<std::size_t>(group)];
    last.sectors -= sectors;
    hit = last.survival >= 1.0 || (last.survival > 0.0 && place_of(object) < last.survival);
  }
  group = static_cast<std::int32_t>(groups_.size()) - 1;
  append(sectors);
  return hit;
}

void SetAssociativeCache::touch_once(int sectors) { append(sectors); }

void SetAssociativeCache::append(int sectors) {
  groups_.back().sectors += sectors;
  newest_sectors_ += sectors;
  if (newest_sectors_ >= group_sectors_) {
    begin_group();
  }
}

/// All groups have aged: looks up anew how likely each survives what was used since.
void SetAssociativeCache::begin_group() {
  constexpr double kSure = 1e-5;
  newest_sectors_ = 0;
  live_.push_back(groups_.size() - 1);
  double used = 0.0;
  std::size_t dead = 0;
  for (std::size_t i = live_.size(); i-- > 0 && dead == 0;) {
    Group& group = groups_[live_[i]];
    const double probability = survival_after(used + static_cast<double>(group.sectors) / 2);
    group.survival = probability < kSure ? 0.0 : probability > 1 - kSure ? 1.0 : probability;
    used += static_cast<double>(group.sectors);
    dead = group.survival > 0.0 ? 0 : i + 1;
  }
  for (std::size_t i = 0; i < dead; ++i) {
    groups_[live_[i]].survival = 0.0;
  }
  live_.erase(live_.begin(), live_.begin() + static_cast<std::ptrdiff_t>(dead));
  std::erase_if(live_, [this](std::size_t i) { return groups_[i].sectors == 0; });
  groups_.emplace_back();
  constexpr std::size_t kSlack = 1024;
  if (groups_.size() > 2 * live_.size() + group_of_.size() + kSlack) {
    forget_empty_groups();
  }
}

/// Numbers the groups anew, so that there are no more than objects.
void SetAssociativeCache::forget_empty_groups() {
  std::vector<std::int32_t> renumbered(groups_.size(), 0);
  std::vector<Group> kept{Group{.sectors = 0, .survival = 0.0}};  // What is lost for good.
  for (std::size_t& live : live_) {
    renumbered[live] = static_cast<std::int32_t>(kept.size());
    kept.push_back(groups_[live]);
    live = kept.size() - 1;
  }
  kept.emplace_back();
  renumbered.back() = static_cast<std::int32_t>(kept.size()) - 1;
  for (std::int32_t& group : group_of_) {
    group = group < 0 ? group : renumbered[static_cast<std::size_t>(group)];
  }
  groups_ = std::move(kept);
}

/// Where in the order of set loads the object's lines lie, from 0, the lightest, to 1. It is the
/// same at every touch: a line whose set is overloaded meets the same rivals again.
double SetAssociativeCache::place_of(int object) {
  std::uint64_t bits = static_cast<std::uint64_t>(object) + 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;  // SplitMix64 (Steele 2014).
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
}

}  // namespace swr
