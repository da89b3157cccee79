// SPDX-License-Identifier: MIT
// What each partition of an L2 keeps.
#pragma once

namespace swr {

struct L2Policy {
  long long effective_bytes = 0;  ///< What data of one head that every SM reads can occupy.
  /// Lines of a set, in each of which the least recently used is replaced; 0 stands for one set of
  /// all lines, where the ways are not known.
  int ways = 0;
};

}  // namespace swr
