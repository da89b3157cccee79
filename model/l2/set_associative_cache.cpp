// SPDX-License-Identifier: MIT
#include "model/l2/set_associative_cache.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace swr {
namespace {

constexpr int kGroupsPerCapacity = 64;
/// Survival is tabulated up to so many capacities used, in so fine steps.
constexpr double kTableEnd = 4.0;
constexpr double kTableStep = 1.0 / 128;

/// Probabilities this near to 0 and 1 are taken for certain.
constexpr double kSure = 1e-5;

/// Survival by what was used since, in equal steps. It never rises: what was lost does not come
/// back.
std::vector<double> survival_table(const SetShape& shape) {
  std::vector<double> table;
  double before = 1.0;
  for (double used = kTableStep / 2; used < kTableEnd; used += kTableStep) {
    const double probability = survival(used * shape.capacity_sectors, shape);
    const double sure = probability < kSure ? 0.0 : probability > 1 - kSure ? 1.0 : probability;
    before = std::min(before, sure);
    table.push_back(before);
  }
  return table;
}

/// The age, in half sectors used since, from which no more than `share` of the objects survives:
/// the end of the last step before.
long long age_lost(const std::vector<double>& table, const SetShape& shape, double share) {
  const auto lost =
      std::ranges::partition_point(table, [share](double kept) { return kept > share; });
  const auto steps = std::max<std::ptrdiff_t>(1, lost - table.begin());
  return static_cast<long long>(
      std::ceil(2 * static_cast<double>(steps) * kTableStep * shape.capacity_sectors));
}

}  // namespace

/// The lines that others use of a set are taken as normal, with half a line to correct for their
/// being whole. Those of the footprint are a sample of what the set holds of it, which gives the
/// variance of a binomial; the evenness of the hash ends within a page, where a set gets a line
/// more or less. So far as sets are even, the line itself is one of those that its set holds, and
/// the others are one less. What was used beyond the footprint is of other buffers, of which a set
/// gets what chance gives it.
double survival(double used_sectors, const SetShape& shape) {
  constexpr double kPageDispersion = 0.1;
  const double lines_per_sector = shape.ways / shape.capacity_sectors;
  const double own_sectors = std::min(used_sectors, shape.footprint_sectors);
  const double share = own_sectors / shape.footprint_sectors;
  const double own = lines_per_sector * own_sectors - (1.0 - kPageDispersion) * share;
  const double foreign = lines_per_sector * (used_sectors - own_sectors);
  const double dispersion = kPageDispersion + (1.0 - kPageDispersion) * (1.0 - share);
  const double deviation = std::sqrt(std::max(dispersion * own + foreign, 1e-12));
  return 0.5 * std::erfc((own + foreign - shape.ways + 0.5) / deviation / std::sqrt(2.0));
}

SetAssociativeCache::SetAssociativeCache(long long effective_sectors, int ways,
                                         std::span<const long long> footprint_sectors)
    : group_sectors_(std::max(1LL, effective_sectors / kGroupsPerCapacity)) {
  groups_.emplace_back();  // kLost.
  take_place();
  std::map<long long, std::vector<double>> tables;  // By footprint.
  objects_.resize(footprint_sectors.size());
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    // A scan to and fro finds ways - 1/2 lines of a set again: the line itself takes a place.
    const SetShape shape{
        .capacity_sectors = static_cast<double>(effective_sectors) * ways / (ways - 0.5),
        .ways = ways,
        .footprint_sectors = static_cast<double>(footprint_sectors[i])};
    const auto [table, is_new] = tables.try_emplace(footprint_sectors[i]);
    if (is_new) {
      table->second = survival_table(shape);
      lost_age_ = std::max(lost_age_, age_lost(table->second, shape, 0.0));
    }
    objects_[i].lost_age = age_lost(table->second, shape, share_of(static_cast<int>(i)));
  }
}

/// The group in progress is full.
void SetAssociativeCache::begin_group() {
  settle_moves();
  close_group();
  join_small_groups();
  drop_lost_groups();
  take_place();
  constexpr std::size_t kSlack = 1024;
  if (links_.size() > live_.size() + objects_.size() + kSlack) {
    renumber_groups();
  }
}

/// Until here groups hold what they held when the last one was full: ages are counted to then.
void SetAssociativeCache::settle_moves() {
  for (const Move& move : moves_) {
    at(move.from).sectors -= move.sectors;
    live_sectors_ -= move.sectors;
    note_loss(move.from);
  }
  moves_.clear();
}

/// Puts the group in progress among the live ones.
void SetAssociativeCache::close_group() {
  if (!live_.empty()) {
    at(current_).older = live_.back();
    at(live_.back()).younger = current_;
  }
  live_.push_back(current_);
  Group& full = at(current_);
  live_sectors_ += full.sectors;
  used_since_ += 2 * full.sectors;
  full.age = full.sectors - used_since_;
}

/// Gives the next group a place.
void SetAssociativeCache::take_place() {
  if (free_places_.empty()) {
    free_places_.push_back(static_cast<std::int32_t>(groups_.size()));
    groups_.emplace_back();
  }
  current_ = free_places_.back();
  free_places_.pop_back();
  current_number_ = static_cast<std::int32_t>(links_.size());
  at(current_) = {.number = current_number_};
  links_.push_back(~current_);
}

void SetAssociativeCache::leave_place(std::int32_t group) {
  at(group).number = kNone;
  free_places_.push_back(group);
}

/// Joins neighbours in age that have lost most of their objects to younger groups, from the oldest
/// on.
void SetAssociativeCache::join_small_groups() {
  std::ranges::sort(small_, {}, [this](std::int32_t group) { return at(group).number; });
  for (std::int32_t group : small_) {
    if (at(group).number == kNone) {
      continue;
    }
    if (are_small(at(group).older, group)) {
      join_to_younger(at(group).older);
    }
    while (are_small(group, at(group).younger)) {
      join_to_younger(std::exchange(group, at(group).younger));
    }
  }
  small_.clear();
}

void SetAssociativeCache::join_to_younger(std::int32_t group) {
  const Group& joined = at(group);
  Group& younger = at(joined.younger);
  link(joined.number) = younger.number;
  younger.sectors += joined.sectors;
  younger.age += joined.sectors;  // Its middle is older by half of them.
  younger.older = joined.older;
  if (joined.older != kNone) {
    at(joined.older).younger = joined.younger;
  }
  live_.erase(std::ranges::lower_bound(live_, joined.number, {},
                                       [this](std::int32_t other) { return at(other).number; }));
  leave_place(group);
}

void SetAssociativeCache::age_groups() {
  long long used = 0;
  for (std::size_t i = live_.size(); i-- > 0;) {
    Group& group = at(live_[i]);
    used += group.sectors;
    group.age = 2 * used - group.sectors;
  }
  used_since_ = 0;
}

/// The age of the oldest takes no adding up: all that live are younger.
void SetAssociativeCache::drop_lost_groups() {
  auto first = live_.begin();
  for (; first != live_.end() && 2 * live_sectors_ - at(*first).sectors >= lost_age_; ++first) {
    live_sectors_ -= at(*first).sectors;
    link(at(*first).number) = ~kLost;
    leave_place(*first);
  }
  if (first != live_.begin() && first != live_.end()) {
    at(*first).older = kNone;
  }
  live_.erase(live_.begin(), first);
}

/// Numbers the groups anew, so that there are hardly more numbers than objects.
void SetAssociativeCache::renumber_groups() {
  std::vector<std::int32_t> ordered{kLost};
  ordered.insert(ordered.end(), live_.begin(), live_.end());
  ordered.push_back(current_);
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    at(ordered[i]).number = static_cast<std::int32_t>(i);
  }
  for (Object& object : objects_) {
    object.group = object.group == kNone ? kNone : at(place_of_group(object.group)).number;
  }
  links_.clear();
  for (const std::int32_t group : ordered) {
    links_.push_back(~group);
  }
  current_number_ = at(current_).number;
}

/// Where in the order of set loads the object's lines lie, from 0, the lightest, to 1. It is the
/// same at every touch: a line whose set is overloaded meets the same rivals again.
double SetAssociativeCache::share_of(int object) {
  std::uint64_t bits = static_cast<std::uint64_t>(object) + 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;  // SplitMix64 (Steele 2014).
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
}

}  // namespace swr
