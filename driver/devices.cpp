// SPDX-License-Identifier: MIT
#include "driver/devices.h"

#include "driver/cuda_driver.h"

#include <array>

namespace swr {
namespace {

/// Reads attributes of one device.
class Attributes {
 public:
  explicit Attributes(CUdevice device) : device_(device) {}

  int operator()(CUdevice_attribute attribute) const {
    int value = 0;
    cuda_driver().device_get_attribute(&value, attribute, device_);
    return value;
  }

 private:
  CUdevice device_;
};

std::string device_name(CUdevice device) {
  std::array<char, 256> name{};
  cuda_driver().device_get_name(name.data(), static_cast<int>(name.size()), device);
  return name.data();
}

/// Two transfers per memory clock and bus line. Zero where the driver reports no clock.
double dram_gb_per_s(const Attributes& attribute) {
  const double clock_hz = 1e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  const double bus_bytes = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
  return 2.0 * clock_hz * bus_bytes / 1e9;
}

DeviceInfo describe_device(int ordinal) {
  CUdevice device = 0;
  cuda_driver().device_get(&device, ordinal);
  const Attributes attribute(device);
  DeviceInfo info;
  info.name = device_name(device);
  info.sm_arch = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                 attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.dram_gb_per_s = dram_gb_per_s(attribute);
  // The driver names slices after their profile, e.g. "NVIDIA H200 MIG 1g.18gb".
  info.mig = info.name.find(" MIG ") != std::string::npos;
  info.smem_per_cta_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.smem_per_sm_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  info.smem_reserved_per_cta_bytes =
      attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  info.registers_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  info.max_threads_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  info.max_ctas_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  return info;
}

std::string pci_bus_id(CUdevice device) {
  std::array<char, 32> text{};
  cuda_driver().device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), device);
  return text.data();
}

}  // namespace

DeviceInfo present_device(int ordinal) {
  const auto devices = list_devices();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size()) {
    throw Error(ErrorCode::invalid_argument,
                "GPU " + std::to_string(ordinal) + " does not exist; this machine has " +
                    std::to_string(devices.size()) + ", counted from 0");
  }
  return devices[static_cast<std::size_t>(ordinal)];
}

DeviceDetails device_details(int ordinal) {
  CUdevice device = 0;
  cuda_driver().device_get(&device, ordinal);
  const Attributes attribute(device);
  return {.pci_bus_id = pci_bus_id(device),
          .sm_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
          .memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
          .ecc = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0};
}

std::vector<DeviceInfo> list_devices() {
  int count = 0;
  cuda_driver().device_get_count(&count);
  if (count == 0) {
    throw Error(ErrorCode::no_driver,
                "the CUDA driver reports no device; check CUDA_VISIBLE_DEVICES, or name a GPU with "
                "--gpu to predict without one");
  }
  std::vector<DeviceInfo> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    devices.push_back(describe_device(ordinal));
  }
  return devices;
}

std::string driver_version() {
  int version = 0;
  cuda_driver().driver_get_version(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace swr
