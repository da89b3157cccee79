// SPDX-License-Identifier: MIT
// Joins databases of several workers into one.
#pragma once

#include <swr/store.h>

#include <cstddef>
#include <filesystem>
#include <span>

namespace swr {

/// What a merge added; zero when everything was there already.
struct MergeSummary {
  std::size_t runs = 0;
  std::size_t results = 0;
  std::size_t decisions = 0;
  /// Of all runs there, those that began more than a day after now, by a clock that was ahead: they
  /// stay the newest.
  std::size_t runs_ahead = 0;
};

/// Adds the rows of `sources` to `out`, which is created when missing. Runs keep what is known of
/// them; runs and results that are equal in every value become one, so that merging again adds
/// nothing. A result that waited for its counters receives them. Afterwards rows are in the order
/// of the beginnings of their runs, whichever file they came from. Nobody else may have `out` open.
/// Throws: Error{invalid_argument} naming two files whose measurements on a device are not
/// comparable (templates, NVRTC, driver, L2 state or conditions differ) and no file holds both
/// already; what Store's constructor throws. `out` is as it was then.
MergeSummary merge_databases(const std::filesystem::path& out,
                             std::span<const std::filesystem::path> sources);

}  // namespace swr
