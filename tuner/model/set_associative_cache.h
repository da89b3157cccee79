// SPDX-License-Identifier: MIT
// A cache of many sets of a few ways with least-recently-used replacement in each, seen from tiles
// of many lines. An address hash spreads the lines over the sets, never quite evenly: a line stays
// until as many other lines as a set has ways were used in its set, and how many were used there is
// spread about the mean. So a tile comes back with a probability that falls smoothly with what was
// used in between. Constant time per touch: tiles are kept in groups of about equal age.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace swr {

struct SetShape {
  double capacity_sectors = 0.0;
  int ways = 0;  ///< Lines of a set, at least 1.
  /// All data that are used again, in long contiguous pieces. The hash spreads those evenly, so
  /// each set holds about as many lines of them; which of those a part of the data is made of is
  /// chance.
  double footprint_sectors = 0.0;
};

/// Probability that a line is still there after other lines of so many sectors were used.
double survival(double used_sectors, const SetShape& shape);

class SetAssociativeCache {
 public:
  /// Objects have ids from 0 to `objects` - 1. The capacity is `effective_sectors` on average: what
  /// a scan to and fro finds again.
  /// `footprint_sectors` is the size of all objects together.
  SetAssociativeCache(long long effective_sectors, int ways, long long footprint_sectors,
                      int objects);

  /// Uses an object of fixed size. True when it hits; the draw repeats for equal sequences of
  /// calls.
  bool touch(int object, int sectors);

  /// Uses an object that is never used again; it only pushes others out.
  void touch_once(int sectors);

 private:
  /// Objects last used at about the same time.
  struct Group {
    long long sectors = 0;  ///< Of them that no younger group holds.
    double survival = 1.0;
    std::size_t merged_into = 0;  ///< Place of the group that holds its objects now, or its own.
  };

  std::size_t place_in_table(long long half_sectors) const;
  void tabulate_survival();
  void append(int sectors);
  void begin_group();
  std::size_t root_of(std::size_t group);
  void merge_small_groups();
  void renumber_groups();
  static double place_of(int object);

  SetShape shape_;
  long long group_sectors_;             ///< Of a full group.
  std::vector<double> survival_;        ///< Tabulated, by what was used in equal steps.
  std::vector<long long> step_end_;     ///< Half sectors used with which each step has ended.
  std::vector<Group> groups_{1};        ///< Oldest first.
  std::vector<std::size_t> live_{};     ///< Groups whose objects may still be there, oldest first.
  std::vector<std::int32_t> group_of_;  ///< Per object; -1 when never used.
};

}  // namespace swr
