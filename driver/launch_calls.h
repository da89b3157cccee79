// SPDX-License-Identifier: MIT
// The driver's functions that launching kernels needs, for the tuner, the runtime and exported
// packages, which carry this very file.
#pragma once

#include <cuda.h>

#include <type_traits>

namespace swr {

/// Entry points of the driver. cuda.h renames functions to their current version by macro, so the
/// types follow the macro while find_launch_calls() spells the versions out.
struct LaunchCalls {
  decltype(cuFuncSetAttribute)* function_set_attribute = nullptr;
  decltype(cuLaunchKernelEx)* launch_kernel_ex = nullptr;
  decltype(cuTensorMapEncodeTiled)* tensor_map_encode_tiled = nullptr;

  // What tile counters take beside it.
  decltype(cuThreadExchangeStreamCaptureMode)* exchange_capture_mode = nullptr;
  decltype(cuStreamIsCapturing)* stream_is_capturing = nullptr;
  decltype(cuStreamGetId)* stream_get_id = nullptr;
  decltype(cuStreamCreate)* stream_create = nullptr;
  decltype(cuStreamSynchronize)* stream_synchronize = nullptr;
  decltype(cuStreamDestroy)* stream_destroy = nullptr;
  decltype(cuMemAlloc)* mem_alloc = nullptr;
  decltype(cuMemFree)* mem_free = nullptr;
  decltype(cuMemsetD8Async)* memset_async = nullptr;
};

/// `find(name)` gives the address of a function of the driver.
template <typename Find>
LaunchCalls find_launch_calls(Find&& find) {
  LaunchCalls calls;
  const auto bind = [&](auto*& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(find(name));
  };
  bind(calls.function_set_attribute, "cuFuncSetAttribute");
  bind(calls.launch_kernel_ex, "cuLaunchKernelEx");
  bind(calls.tensor_map_encode_tiled, "cuTensorMapEncodeTiled");
  bind(calls.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  bind(calls.stream_is_capturing, "cuStreamIsCapturing");
  bind(calls.stream_get_id, "cuStreamGetId");
  bind(calls.stream_create, "cuStreamCreate");
  bind(calls.stream_synchronize, "cuStreamSynchronize");
  bind(calls.stream_destroy, "cuStreamDestroy_v2");
  bind(calls.mem_alloc, "cuMemAlloc_v2");
  bind(calls.mem_free, "cuMemFree_v2");
  bind(calls.memset_async, "cuMemsetD8Async");
  return calls;
}

/// Allows this thread what capturing a stream forbids, for work that puts nothing on that stream:
/// loading a kernel, allocating memory.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const LaunchCalls& calls) : calls_(calls) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() { calls_.exchange_capture_mode(&mode_); }

  const LaunchCalls& calls_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace swr
