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

/// What says which of several equal GPUs one is, and what equal ones share beyond DeviceInfo.
struct DeviceDetails {
  std::string pci_bus_id;
  int sm_clock_khz = 0;      ///< The highest.
  int memory_clock_khz = 0;  ///< The highest.
  bool ecc = false;
};

/// Throws: Error{no_driver}; DriverError when there is no such device.
DeviceDetails device_details(int ordinal);

/// CUDA version the driver supports, as "major.minor". Throws: Error{no_driver}.
std::string driver_version();

}  // namespace swr
