// SPDX-License-Identifier: MIT
// The CUDA driver and the device of the current context, for every operation of the package.
#pragma once

#include "core/shape_distance.h"
#include "driver/launch_calls.h"
#include "export/package/common.h"

#include <cuda.h>

#include <string>

namespace swr_package {

inline std::string text(long long value) { return std::to_string(value); }

/// Throws: Error{invalid_argument} unless it holds.
void require_argument(bool holds, const std::string& message);

struct Device {
  std::string name;
  swr::DevicePoint point;
  int smem_per_cta_bytes = 0;
};

/// The driver, opened at run time: a machine without one can still load this library.
class Driver {
 public:
  /// Throws: Error{no_driver}.
  Driver();

  /// Throws: Error{driver_failed} naming the call.
  void require(CUresult result, const char* call) const;

  /// Address of a function. Throws: Error{no_driver}.
  void* find(const char* name) const;

  /// Of the current context. Throws: Error{driver_failed}.
  Device current_device() const;

  /// CTAs of a launch that fills the device, at least one per SM. Throws: Error{driver_failed}.
  int resident_workers(const Device& device, CUfunction function, int threads,
                       int dynamic_smem_bytes) const;

  swr::LaunchCalls launch;
  decltype(cuCtxGetCurrent)* context_get_current = nullptr;
  decltype(cuCtxSetCurrent)* context_set_current = nullptr;
  decltype(cuCtxGetDevice)* context_get_device = nullptr;
  decltype(cuDeviceGetAttribute)* device_get_attribute = nullptr;
  decltype(cuDeviceGetName)* device_get_name = nullptr;
  decltype(cuModuleLoadData)* module_load_data = nullptr;
  decltype(cuModuleUnload)* module_unload = nullptr;
  decltype(cuModuleGetFunction)* module_get_function = nullptr;
  decltype(cuOccupancyMaxActiveBlocksPerMultiprocessor)* resident_ctas = nullptr;
  decltype(cuGetErrorName)* get_error_name = nullptr;

 private:
  template <typename Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(find(name));
  }

  /// Stays open: the driver runs threads of its own.
  void* library_;
};

}  // namespace swr_package
