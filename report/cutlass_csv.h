// SPDX-License-Identifier: MIT
// Measured results with the columns that users of the CUTLASS profiler know.
#pragma once

#include "core/recorded_space.h"

#include <iosfwd>

namespace swr {

/// One header line and one line per result; docs/search.md names the columns. Runtime is in
/// milliseconds, GB/s and GFLOPs are per second of it. Requires: measured results.
void write_cutlass_csv(std::ostream& out, const RecordedSpace& space);

}  // namespace swr
