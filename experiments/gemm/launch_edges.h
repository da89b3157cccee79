// SPDX-License-Identifier: MIT
// What a library lets overlap, read off the graph of its launches.
#pragma once

#include "driver/cuda_driver.h"

#include <functional>

namespace swr {

/// True when a second launch may start before the first has ended (programmatic dependent launch):
/// in a captured graph such launches are joined by programmatic edges. Throws: DriverError.
bool overlaps_itself(const Stream& stream, const std::function<void()>& launch);

}  // namespace swr
