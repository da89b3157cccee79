// SPDX-License-Identifier: MIT
// Measured results that come with swr: shipped/*.spaces, compiled into this library. They answer
// below what a database holds. scripts/measure_shipped measures them anew.
#pragma once

#include "core/recorded_space.h"
#include "db/lookup_table.h"

#include <span>
#include <vector>

namespace swr {

/// Every recording that comes with swr.
const std::vector<RecordedSpace>& shipped_spaces();

/// What of recordings may answer: of each the variants near its fastest, without ids.
LookupRecords lookup_records_of(std::span<const RecordedSpace> spaces);

/// The recordings that come with swr as a table; made once, on first use, by any thread.
const LookupTable& shipped_table();

/// True when they were taken in this setting: a warm L2 and the built-in templates.
bool are_shipped_in(const Setting& setting);

}  // namespace swr
