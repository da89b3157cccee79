// SPDX-License-Identifier: MIT
// The GPUs of this machine, read through the CUDA driver.
#pragma once

#include <swr/device.h>

#include <string>
#include <vector>

namespace swr {

/// Every visible device in ordinal order.
/// Throws: Error{no_driver} when the driver cannot be loaded or reports no device.
std::vector<DeviceInfo> list_devices();

/// CUDA version the driver supports, as "major.minor". Throws: Error{no_driver}.
std::string driver_version();

}  // namespace swr
