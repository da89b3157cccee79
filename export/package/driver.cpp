// SPDX-License-Identifier: MIT
#include "export/package/driver.h"

#include <array>
#include <cstddef>
#include <dlfcn.h>

namespace swr_package {

void require_argument(bool holds, const std::string& message) {
  if (!holds) {
    throw Error(ErrorCode::invalid_argument, message);
  }
}

Driver::Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
  if (library_ == nullptr) {
    throw Error(ErrorCode::no_driver, "libcuda.so.1 cannot be opened; install NVIDIA's driver");
  }
  launch = swr::find_launch_calls([this](const char* name) { return find(name); });
  bind(context_get_current, "cuCtxGetCurrent");
  bind(context_set_current, "cuCtxSetCurrent");
  bind(context_get_device, "cuCtxGetDevice");
  bind(device_get_attribute, "cuDeviceGetAttribute");
  bind(device_get_name, "cuDeviceGetName");
  bind(module_load_data, "cuModuleLoadData");
  bind(module_unload, "cuModuleUnload");
  bind(module_get_function, "cuModuleGetFunction");
  bind(resident_ctas, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  bind(get_error_name, "cuGetErrorName");
}

void Driver::require(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) {
    return;
  }
  const char* name = nullptr;
  get_error_name(result, &name);
  throw Error(ErrorCode::driver_failed,
              std::string(call) + " failed with " + (name == nullptr ? "an unknown error" : name));
}

void* Driver::find(const char* name) const {
  void* const symbol = dlsym(library_, name);
  if (symbol == nullptr) {
    throw Error(ErrorCode::no_driver,
                std::string("the CUDA driver has no ") + name + "; install a newer one");
  }
  return symbol;
}

Device Driver::current_device() const {
  CUdevice device = 0;
  require(context_get_device(&device), "cuCtxGetDevice");
  const auto attribute = [&](CUdevice_attribute name) {
    int value = 0;
    require(device_get_attribute(&value, name, device), "cuDeviceGetAttribute");
    return value;
  };
  std::array<char, 256> name{};
  require(device_get_name(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
  Device result;
  result.name = name.data();
  result.smem_per_cta_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  result.point.sm_arch = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                         attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  result.point.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  result.point.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  // Two transfers per memory clock (kHz) and bus line.
  result.point.dram_gb_per_s = 2e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                               (attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0) / 1e9;
  // The driver names slices after their profile.
  result.point.mig = result.name.find(" MIG ") != std::string::npos;
  return result;
}

int Driver::resident_workers(const Device& device, CUfunction function, int threads,
                             int dynamic_smem_bytes) const {
  int resident = 0;
  require(resident_ctas(&resident, function, threads, static_cast<std::size_t>(dynamic_smem_bytes)),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return device.point.sm_count * (resident > 0 ? resident : 1);
}

}  // namespace swr_package
