// SPDX-License-Identifier: MIT
// The CUDA driver, opened at run time, and owners for what it hands out: context, memory, modules,
// streams and events.
#pragma once

#include "core/dynamic_library.h"
#include "driver/kernel_launch.h"
#include <swr/kernel.h>

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace swr {

/// A driver call that failed. what() names the call, the driver's error and its explanation.
class DriverError : public Error {
 public:
  DriverError(CUresult result, const std::string& message)
      : Error(ErrorCode::driver_failed, message), result_(result) {}

  CUresult result() const noexcept { return result_; }
  /// True when a kernel faulted: every later call in the same context fails too.
  bool context_is_lost() const noexcept;

 private:
  CUresult result_;
};

/// One entry point of the driver, called like the function it stands for.
template <typename Function>
class DriverCall {
 public:
  DriverCall(const DynamicLibrary& library, const char* name)
      : function_(library.function<Function>(name)), name_(name) {}

  /// Throws: DriverError.
  template <typename... Arguments>
  void operator()(Arguments... arguments) const;

  /// For destructors and for callers that expect failure.
  template <typename... Arguments>
  CUresult result_of(Arguments... arguments) const noexcept {
    return function_(arguments...);
  }

 private:
  Function* function_;
  const char* name_;
};

/// The driver's entry points. cuda.h renames functions to their current version by macro, so the
/// types follow the macro while the names spell the version out. cuEventElapsedTime keeps its first
/// version, of equal signature, because drivers before 12.8 have no other.
struct CudaDriver {
  /// Throws: Error{no_driver} when libcuda cannot be opened, is too old or finds no device.
  CudaDriver();

  DynamicLibrary library;

  DriverCall<decltype(cuGetErrorName)> get_error_name{library, "cuGetErrorName"};
  DriverCall<decltype(cuGetErrorString)> get_error_string{library, "cuGetErrorString"};
  DriverCall<decltype(cuInit)> init{library, "cuInit"};
  DriverCall<decltype(cuDriverGetVersion)> driver_get_version{library, "cuDriverGetVersion"};

  DriverCall<decltype(cuDeviceGetCount)> device_get_count{library, "cuDeviceGetCount"};
  DriverCall<decltype(cuDeviceGet)> device_get{library, "cuDeviceGet"};
  DriverCall<decltype(cuDeviceGetName)> device_get_name{library, "cuDeviceGetName"};
  DriverCall<decltype(cuDeviceGetPCIBusId)> device_get_pci_bus_id{library, "cuDeviceGetPCIBusId"};
  DriverCall<decltype(cuDeviceGetAttribute)> device_get_attribute{library, "cuDeviceGetAttribute"};

  DriverCall<decltype(cuDevicePrimaryCtxRetain)> primary_context_retain{library,
                                                                        "cuDevicePrimaryCtxRetain"};
  DriverCall<decltype(cuDevicePrimaryCtxRelease)> primary_context_release{
      library, "cuDevicePrimaryCtxRelease_v2"};
  DriverCall<decltype(cuCtxSetCurrent)> context_set_current{library, "cuCtxSetCurrent"};
  DriverCall<decltype(cuCtxGetCurrent)> context_get_current{library, "cuCtxGetCurrent"};
  DriverCall<decltype(cuCtxGetDevice)> context_get_device{library, "cuCtxGetDevice"};
  DriverCall<decltype(cuPointerGetAttribute)> pointer_get_attribute{library,
                                                                    "cuPointerGetAttribute"};
  DriverCall<decltype(cuCtxSynchronize)> context_synchronize{library, "cuCtxSynchronize"};

  DriverCall<decltype(cuMemAlloc)> mem_alloc{library, "cuMemAlloc_v2"};
  DriverCall<decltype(cuMemGetInfo)> mem_get_info{library, "cuMemGetInfo_v2"};
  DriverCall<decltype(cuMemFree)> mem_free{library, "cuMemFree_v2"};
  DriverCall<decltype(cuMemcpyHtoD)> copy_to_device{library, "cuMemcpyHtoD_v2"};
  DriverCall<decltype(cuMemcpyDtoH)> copy_to_host{library, "cuMemcpyDtoH_v2"};
  DriverCall<decltype(cuMemcpyDtoDAsync)> copy_on_device{library, "cuMemcpyDtoDAsync_v2"};
  DriverCall<decltype(cuMemsetD8Async)> memset_async{library, "cuMemsetD8Async"};
  DriverCall<decltype(cuMemsetD2D8Async)> memset_rows_async{library, "cuMemsetD2D8Async"};
  DriverCall<decltype(cuMemsetD32Async)> memset_words_async{library, "cuMemsetD32Async"};
  DriverCall<decltype(cuArray3DCreate)> array_create{library, "cuArray3DCreate_v2"};
  DriverCall<decltype(cuArrayDestroy)> array_destroy{library, "cuArrayDestroy"};
  DriverCall<decltype(cuMemcpy3D)> copy_box{library, "cuMemcpy3D_v2"};
  DriverCall<decltype(cuTexObjectCreate)> texture_create{library, "cuTexObjectCreate"};
  DriverCall<decltype(cuTexObjectDestroy)> texture_destroy{library, "cuTexObjectDestroy"};

  DriverCall<decltype(cuModuleLoadData)> module_load_data{library, "cuModuleLoadData"};
  DriverCall<decltype(cuModuleUnload)> module_unload{library, "cuModuleUnload"};
  DriverCall<decltype(cuModuleGetFunction)> module_get_function{library, "cuModuleGetFunction"};
  DriverCall<decltype(cuModuleGetGlobal)> module_get_global{library, "cuModuleGetGlobal_v2"};
  DriverCall<decltype(cuFuncSetAttribute)> function_set_attribute{library, "cuFuncSetAttribute"};
  DriverCall<decltype(cuLaunchKernel)> launch_kernel{library, "cuLaunchKernel"};

  DriverCall<decltype(cuStreamCreate)> stream_create{library, "cuStreamCreate"};
  DriverCall<decltype(cuStreamDestroy)> stream_destroy{library, "cuStreamDestroy_v2"};
  DriverCall<decltype(cuStreamSynchronize)> stream_synchronize{library, "cuStreamSynchronize"};
  DriverCall<decltype(cuEventCreate)> event_create{library, "cuEventCreate"};
  DriverCall<decltype(cuEventDestroy)> event_destroy{library, "cuEventDestroy_v2"};
  DriverCall<decltype(cuEventRecord)> event_record{library, "cuEventRecord"};
  DriverCall<decltype(cuEventQuery)> event_query{library, "cuEventQuery"};
  DriverCall<decltype(cuEventSynchronize)> event_synchronize{library, "cuEventSynchronize"};
  DriverCall<decltype(cuEventElapsedTime)> event_elapsed_time{library, "cuEventElapsedTime"};

  DriverCall<decltype(cuStreamBeginCapture)> stream_begin_capture{library,
                                                                  "cuStreamBeginCapture_v2"};
  DriverCall<decltype(cuStreamEndCapture)> stream_end_capture{library, "cuStreamEndCapture"};
  DriverCall<decltype(cuGraphInstantiateWithFlags)> graph_instantiate{
      library, "cuGraphInstantiateWithFlags"};
  DriverCall<decltype(cuGraphLaunch)> graph_launch{library, "cuGraphLaunch"};
  DriverCall<decltype(cuGraphExecDestroy)> graph_exec_destroy{library, "cuGraphExecDestroy"};
  DriverCall<decltype(cuGraphDestroy)> graph_destroy{library, "cuGraphDestroy"};

  LaunchCalls launch_calls =
      find_launch_calls([this](const char* name) { return library.function<void()>(name); });
};

/// The driver, opened and initialised on first use; a failed attempt is repeated on the next call.
/// Throws: Error{no_driver}. Safe from any thread.
const CudaDriver& cuda_driver();

/// The context that a call works in, current on this thread afterwards: the one that is current, or
/// that of the device on which `memory` lies, or the first device's for null, as CUDA's runtime has
/// it. Throws: Error{no_driver}; Error{driver_failed} in a process that was forked from one which
/// had used the driver; DriverError for memory that is not the driver's.
CUcontext enter_context(const void* memory);

/// Throws DriverError unless the result is success; `call` is the driver's name of the function.
void require_success(CUresult result, const char* call);

template <typename Function>
template <typename... Arguments>
void DriverCall<Function>::operator()(Arguments... arguments) const {
  require_success(function_(arguments...), name_);
}

/// Retains a device's primary context and makes it current on this thread.
class PrimaryContext {
 public:
  /// Throws: Error{invalid_argument} for an ordinal that does not exist; DriverError.
  explicit PrimaryContext(int device_ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  CUcontext handle() const { return context_; }
  /// A context is current per thread: call this first on another one.
  void make_current() const;
  int device_ordinal() const { return device_ordinal_; }

 private:
  int device_ordinal_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

/// A stream, destroyed with its owner.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream handle() const { return stream_; }
  void synchronize() const;

 private:
  CUstream stream_ = nullptr;
};

/// A timing event.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream) const;
  /// Whether all that was enqueued before it is done; does not wait.
  bool is_over() const;
  /// Microseconds from `start` to this event; waits for this one.
  double elapsed_us_since(const Event& start) const;

 private:
  CUevent event_ = nullptr;
};

/// Work of a stream, recorded once and replayed with a single call.
class Graph {
 public:
  /// Records what `enqueue` puts on the stream; nothing of it runs.
  /// Throws: DriverError; what `enqueue` throws.
  Graph(const Stream& stream, const std::function<void()>& enqueue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const Stream& stream) const;

 private:
  CUgraphExec executable_ = nullptr;
};

/// Device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Throws: DriverError, also when the device is out of memory.
  explicit DeviceBuffer(std::size_t size_bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  CUdeviceptr address() const { return address_; }
  std::size_t size_bytes() const { return size_bytes_; }

  /// Sets every byte, in stream order.
  void fill(unsigned char value, const Stream& stream) const;
  /// Copies to the start of the buffer; waits for work of every blocking stream.
  void upload(std::span<const std::byte> source) const;
  /// Copies from the start of the buffer; waits for work of every blocking stream.
  void download(std::span<std::byte> destination) const;

 private:
  CUdeviceptr address_ = 0;
  std::size_t size_bytes_ = 0;
};

/// Shape of a launch.
struct LaunchShape {
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned grid_z = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  unsigned block_z = 1;
  unsigned dynamic_smem_bytes = 0;
};

/// A kernel of a loaded cubin; empty until one is moved in.
class Kernel {
 public:
  Kernel() = default;
  /// Throws: DriverError when the cubin does not fit the device or lacks the entry.
  Kernel(std::span<const std::byte> cubin, const std::string& entry);
  explicit Kernel(const CompiledKernel& compiled);
  ~Kernel();
  Kernel(Kernel&& other) noexcept;
  Kernel& operator=(Kernel&& other) noexcept;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  CUfunction handle() const { return functions_.front(); }
  /// The entry, then CompiledKernel::further_entries.
  std::span<const CUfunction> handles() const { return functions_; }
  /// CompiledKernel::may_overlap; false for one that was loaded without saying so.
  bool may_overlap() const { return may_overlap_; }

  /// Allows launches with this much dynamic shared memory. Throws: DriverError.
  void allow_dynamic_smem(int size_bytes, std::size_t entry = 0) const;

  /// Copies to a variable of the cubin, such as constant memory. Throws: DriverError when there is
  /// no such variable; Error{invalid_argument} when it has another size.
  void set_variable(const std::string& name, std::span<const std::byte> value) const;

  /// Enqueues one launch; the arguments must have exactly the kernel's parameter types.
  /// Throws: DriverError.
  template <typename... Arguments>
  void launch(const LaunchShape& shape, const Stream& stream, Arguments... arguments) const {
    void* pointers[] = {&arguments...};
    enqueue(shape, stream, pointers);
  }
  /// The same of one of handles(), with pointers to the arguments.
  void enqueue(const LaunchShape& shape, const Stream& stream, void** arguments,
               std::size_t entry = 0) const;

 private:
  void add_function(const std::string& entry);

  CUmodule module_ = nullptr;
  std::vector<CUfunction> functions_;
  bool may_overlap_ = false;
};

}  // namespace swr
