// SPDX-License-Identifier: MIT
// The part of a schedule that all operations share, written once: how many CTAs a launch has, which
// of its work items ("tiles") each one computes, and in which direction it walks their data.
// Kernels include this file, models walk it and the CPU tests prove it.
//
// Sources: Sawtooth Wavefront Reordering, Algorithms 2 (persistent), 3 (grid) and 4 (sawtooth),
// and its tile-based form (pairs).
#pragma once

#include <swr/annotations.h>
#include <swr/axes.h>

namespace swr {

SWR_HD constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

SWR_HD constexpr int min_of(int a, int b) { return a < b ? a : b; }
SWR_HD constexpr int max_of(int a, int b) { return a < b ? b : a; }

/// True for forms with a fixed number of CTAs, whatever the number of tiles.
SWR_HD constexpr bool is_persistent(Persistence persistence) {
  return persistence != Persistence::grid && persistence != Persistence::pairs;
}

/// CTAs of the launch. `workers` is at least 1 and counts for the persistent forms only.
SWR_HD constexpr long long cta_count(Persistence persistence, long long tiles, int workers) {
  switch (persistence) {
    case Persistence::grid:
      return tiles;
    case Persistence::persistent:
    case Persistence::snake:
    case Persistence::dynamic:
      return tiles < workers ? tiles : workers;
    case Persistence::pairs:
      return (tiles + 1) / 2;
  }
  return 0;
}

/// Linear tile of a CTA's local iteration (0, 1, ...), or -1 when the CTA is done. `ctas` is the
/// number of CTAs launched. Persistence::dynamic draws tiles in the order of the linear index;
/// which CTA gets which is known only when they run, and this gives the deal of equally fast CTAs.
SWR_HD constexpr long long cta_tile(Persistence persistence, long long cta, long long ctas,
                                    int iteration, long long tiles) {
  long long linear = -1;
  switch (persistence) {
    case Persistence::grid:
      linear = iteration == 0 ? cta : tiles;
      break;
    case Persistence::persistent:
    case Persistence::dynamic:
      linear = cta + iteration * ctas;
      break;
    case Persistence::snake:
      linear = ((iteration & 1) != 0 ? ctas - 1 - cta : cta) + iteration * ctas;
      break;
    case Persistence::pairs:
      linear = iteration < 2 ? 2 * cta + iteration : tiles;
      break;
  }
  return linear < tiles ? linear : -1;
}

/// True when the CTA's local iteration walks its data (K and V, or the k-blocks) from last to
/// first.
SWR_HD constexpr bool scans_backward(Order order, int iteration) {
  return order == Order::right_to_left || (order == Order::sawtooth && (iteration & 1) != 0);
}

}  // namespace swr
