// SPDX-License-Identifier: MIT
#include "tuner/model/set_associative_cache.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace swr {
namespace {

constexpr int kGroupsPerCapacity = 64;
/// Survival is tabulated up to so many capacities used, in so fine steps.
constexpr double kTableEnd = 4.0;
constexpr double kTableStep = 1.0 / 128;

/// Probabilities this near to 0 and 1 are taken for certain.
constexpr double kSure = 1e-5;

}  // namespace

/// The lines that others use of a set are taken as normal, with half a line to correct for their
/// being whole. They are a sample of those that the set holds of the footprint, which gives the
/// variance of a binomial; the evenness of the hash ends within a page, where a set gets a line
/// more or less. So far as sets are even, the line itself is one of those that its set holds, and
/// the others are one less.
double survival(double used_sectors, const SetShape& shape) {
  constexpr double kPageDispersion = 0.1;
  const double share = std::min(1.0, used_sectors / shape.footprint_sectors);
  const double lines =
      shape.ways * used_sectors / shape.capacity_sectors - (1.0 - kPageDispersion) * share;
  const double dispersion = kPageDispersion + (1.0 - kPageDispersion) * (1.0 - share);
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
  tabulate_survival();
}

/// In which step of the table so many half sectors lie.
std::size_t SetAssociativeCache::place_in_table(long long half_sectors) const {
  return static_cast<std::size_t>(static_cast<double>(half_sectors) / 2 / shape_.capacity_sectors /
                                  kTableStep);
}

void SetAssociativeCache::tabulate_survival() {
  for (double used = kTableStep / 2; used < kTableEnd; used += kTableStep) {
    const double probability = survival(used * shape_.capacity_sectors, shape_);
    survival_.push_back(probability < kSure ? 0.0 : probability > 1 - kSure ? 1.0 : probability);
    const std::size_t place = step_end_.size();
    const double about = 2 * (used + kTableStep / 2) * shape_.capacity_sectors;
    long long end = std::max(0LL, static_cast<long long>(about) - 1);
    while (place_in_table(end) <= place) {
      ++end;
    }
    step_end_.push_back(end);
  }
}

bool SetAssociativeCache::touch(int object, int sectors) {
  std::int32_t& group = group_of_[static_cast<std::size_t>(object)];
  bool hit = false;
  if (group >= 0) {
    Group& last = groups_[root_of(static_cast<std::size_t>(group))];
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
  if (groups_.back().sectors >= group_sectors_) {
    begin_group();
  }
}

/// The group that the group was merged into, or itself.
std::size_t SetAssociativeCache::root_of(std::size_t group) {
  while (groups_[group].merged_into != group) {
    groups_[group].merged_into = groups_[groups_[group].merged_into].merged_into;
    group = groups_[group].merged_into;
  }
  return group;
}

/// All groups have aged: looks up anew how likely each survives what was used since. From the
/// youngest on that grows, so the place in the table is walked to, without dividing.
void SetAssociativeCache::begin_group() {
  live_.push_back(groups_.size() - 1);
  merge_small_groups();
  long long half_sectors = 0;  // Used since, counted to the middle of the group.
  std::size_t place = 0;
  std::size_t dead = 0;  // How many of the oldest groups are lost.
  for (std::size_t i = live_.size(); i-- > 0;) {
    Group& group = groups_[live_[i]];
    half_sectors += group.sectors;
    while (place < survival_.size() && half_sectors >= step_end_[place]) {
      ++place;
    }
    group.survival = place < survival_.size() ? survival_[place] : 0.0;
    half_sectors += group.sectors;
    if (group.survival <= 0.0) {
      dead = i + 1;
      break;
    }
  }
  for (std::size_t i = 0; i < dead; ++i) {
    groups_[live_[i]].survival = 0.0;
  }
  live_.erase(live_.begin(), live_.begin() + static_cast<std::ptrdiff_t>(dead));
  groups_.push_back({.sectors = 0, .survival = 1.0, .merged_into = groups_.size()});
  constexpr std::size_t kSlack = 1024;
  if (groups_.size() > live_.size() + group_of_.size() + kSlack) {
    renumber_groups();
  }
}

/// Joins neighbours in age that have lost most of their objects to younger groups.
void SetAssociativeCache::merge_small_groups() {
  std::size_t kept = 0;
  Group* older = nullptr;  // The last that was kept.
  for (const std::size_t place : live_) {
    Group& group = groups_[place];
    if (older != nullptr && older->sectors + group.sectors <= group_sectors_ / 2) {
      group.sectors += older->sectors;
      older->merged_into = place;
      live_[kept - 1] = place;
    } else {
      live_[kept++] = place;
    }
    older = &group;
  }
  live_.resize(kept);
}

/// Numbers the live groups anew, so that there are no more groups than objects.
void SetAssociativeCache::renumber_groups() {
  std::vector<std::int32_t> renumbered(groups_.size(), 0);
  std::vector<Group> kept{{.sectors = 0, .survival = 0.0, .merged_into = 0}};  // What is lost.
  live_.push_back(groups_.size() - 1);
  for (std::size_t& live : live_) {
    renumbered[live] = static_cast<std::int32_t>(kept.size());
    kept.push_back(groups_[live]);
    live = kept.size() - 1;
    kept.back().merged_into = live;
  }
  live_.pop_back();
  for (std::int32_t& group : group_of_) {
    group = group < 0 ? group : renumbered[root_of(static_cast<std::size_t>(group))];
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
