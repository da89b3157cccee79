// SPDX-License-Identifier: MIT
// A cache of many sets of a few ways with least-recently-used replacement in each, seen from tiles
// of many lines. An address hash spreads the lines over the sets, never quite evenly: a line stays
// until as many other lines as a set has ways were used in its set, and how many were used there is
// spread about the mean. So a tile comes back with a probability that falls smoothly with what was
// used in between. Constant time per touch: tiles are kept in groups of about equal age.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace swr {

struct SetShape {
  double capacity_sectors = 0.0;
  int ways = 0;  ///< Lines of a set, at least 1.
  /// The buffer that the line is of, in long contiguous pieces. The hash spreads those evenly, so
  /// each set holds about as many lines of it; which of those a part of the buffer is made of is
  /// chance, and so is what a set gets of other buffers.
  double footprint_sectors = 0.0;
};

/// Probability that a line is still there after other lines of so many sectors were used.
double survival(double used_sectors, const SetShape& shape);

class SetAssociativeCache {
 public:
  /// Objects have ids from 0 to `objects` - 1. The capacity is `effective_sectors` on average: what
  /// a scan to and fro finds again.
  /// `footprint_sectors` has the size of the buffer that each object is of.
  SetAssociativeCache(long long effective_sectors, int ways,
                      std::span<const long long> footprint_sectors);
  /// All objects are of one buffer.
  SetAssociativeCache(long long effective_sectors, int ways, long long footprint_sectors,
                      int objects)
      : SetAssociativeCache(
            effective_sectors, ways,
            std::vector<long long>(static_cast<std::size_t>(objects), footprint_sectors)) {}

  /// Uses an object of fixed size. True when it hits; the draw repeats for equal sequences of
  /// calls.
  bool touch(int object, int sectors);

  /// Uses an object that is never used again; it only pushes others out.
  void touch_once(int sectors);

 private:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::int32_t kLost = 0;  ///< Place that stands for all groups that are lost.

  struct Object {
    std::int32_t group = kNone;  ///< Number of that in which it was last used.
    long long lost_age = 0;      ///< Age of a group with which the object is lost.
  };

  /// Objects last used at about the same time.
  struct Group {
    long long sectors = 0;  ///< Of them that no younger group held when the last one was full.
    /// Half sectors used since, counted to the middle of the group, when ages were last added up.
    /// When the last group was full, they were at least these and at most used_since_ more.
    long long age = 0;
    std::int32_t number = kNone;  ///< In order of time; none where the place is free.
    std::int32_t older = kNone;   ///< Places of its neighbours among the live ones.
    std::int32_t younger = kNone;
  };

  Group& at(std::int32_t place) { return groups_[static_cast<std::size_t>(place)]; }
  const Group& at(std::int32_t place) const { return groups_[static_cast<std::size_t>(place)]; }
  std::int32_t& link(std::int32_t number) { return links_[static_cast<std::size_t>(number)]; }

  /// What touches take from a group for the one in progress.
  struct Move {
    std::int32_t from = kNone;  ///< Place.
    int sectors = 0;
  };

  bool move(std::int32_t group, int sectors, long long lost_age);
  bool is_younger(const Group& group, long long age);
  void append(int sectors);
  std::int32_t place_of_group(std::int32_t number);
  bool are_small(std::int32_t older, std::int32_t younger) const;
  void note_loss(std::int32_t group);
  void begin_group();
  void settle_moves();
  void close_group();
  void take_place();
  void leave_place(std::int32_t group);
  void join_small_groups();
  void join_to_younger(std::int32_t group);
  void age_groups();
  void drop_lost_groups();
  void renumber_groups();
  static double share_of(int object);

  long long group_sectors_;  ///< Of a full group.
  long long lost_age_ = 0;   ///< With which the last object of a group is lost.
  std::vector<Object> objects_;
  /// Few, so that the processor's nearest cache holds them: places are used again.
  std::vector<Group> groups_;
  std::vector<std::int32_t> free_places_;
  std::int32_t current_ = kNone;         ///< Place of the group that is not full yet.
  std::int32_t current_number_ = kNone;  ///< Its number.
  std::vector<Move> moves_;              ///< Since the last group was full.
  long long live_sectors_ = 0;           ///< Of all live groups.
  long long used_since_ = 0;  ///< Half sectors of groups filled since ages were added up.
  /// By number of a group: that of the one it was joined to, or the complement of its place.
  std::vector<std::int32_t> links_;
  // Places of groups:
  std::vector<std::int32_t> live_;   ///< Full, and objects may still be there; oldest first.
  std::vector<std::int32_t> small_;  ///< Those that may have to be joined with a neighbour.
};

// Here what every touch of a walk does, so that it is inlined.

inline bool SetAssociativeCache::touch(int object, int sectors) {
  Object& touched = objects_[static_cast<std::size_t>(object)];
  const std::int32_t group = std::exchange(touched.group, current_number_);
  if (group == current_number_) {
    return true;
  }
  const bool hit = group != kNone && move(group, sectors, touched.lost_age);
  append(sectors);
  return hit;
}

/// Takes an object from the group of the number. True unless it is lost. Objects touched after each
/// other often were so before and come from one group.
inline bool SetAssociativeCache::move(std::int32_t group, int sectors, long long lost_age) {
  const std::int32_t from = place_of_group(group);
  if (from == kLost) {
    return false;
  }
  if (!moves_.empty() && moves_.back().from == from) {
    moves_.back().sectors += sectors;
  } else {
    moves_.push_back({from, sectors});
  }
  return is_younger(at(from), lost_age);
}

/// Adds up ages only where it takes exact ones to tell.
inline bool SetAssociativeCache::is_younger(const Group& group, long long age) {
  const bool is_open = group.age < age && group.age + used_since_ >= age;
  if (is_open) {
    age_groups();
  }
  return group.age < age;
}

inline void SetAssociativeCache::touch_once(int sectors) { append(sectors); }

inline void SetAssociativeCache::append(int sectors) {
  Group& group = at(current_);
  group.sectors += sectors;
  if (group.sectors >= group_sectors_) {
    begin_group();
  }
}

/// Place of the group that holds what was last used in the group of the number.
inline std::int32_t SetAssociativeCache::place_of_group(std::int32_t number) {
  while (link(number) >= 0) {
    const std::int32_t joined_to = link(number);
    link(number) = link(joined_to) >= 0 ? link(joined_to) : joined_to;
    number = joined_to;
  }
  return ~link(number);
}

inline bool SetAssociativeCache::are_small(std::int32_t older, std::int32_t younger) const {
  return older != kNone && younger != kNone &&
         at(older).sectors + at(younger).sectors <= group_sectors_ / 2;
}

/// Only a group that lost objects can have become small enough to be joined with a neighbour.
inline void SetAssociativeCache::note_loss(std::int32_t group) {
  const bool is_large = at(group).sectors > group_sectors_ / 2;
  if (is_large) {
    return;
  }
  if (are_small(at(group).older, group) || are_small(group, at(group).younger)) {
    small_.push_back(group);
  }
}

}  // namespace swr
