// SPDX-License-Identifier: MIT
// Single results of what comes with swr.
#pragma once

#include <swr/store.h>

#include <optional>

namespace swr {

/// The best that was measured of exactly this problem on this device, with the id 0. Empty where
/// nothing was, or nothing of it is legal for the device.
std::optional<StoredResult> shipped_result(const Problem& problem, const DeviceInfo& device);

}  // namespace swr
