// SPDX-License-Identifier: MIT
#include "driver/cuda_driver.h"

#include <array>
#include <pthread.h>

namespace swr {
namespace {

constexpr const char* kAdvice =
    "install NVIDIA's driver, or name a GPU with --gpu (such as gb10) to predict without one";

constexpr const char* kForked =
    "CUDA had been used before this process was forked, and no forked process can use it; start "
    "the "
    "process anew (Python: multiprocessing's start method 'spawn'), or fork before the first use";

/// True in processes that were forked after the driver was opened.
bool was_forked = false;

DynamicLibrary open_driver() {
  const std::array<std::string, 2> candidates{"libcuda.so.1", "libcuda.so"};
  return DynamicLibrary(candidates, ErrorCode::no_driver, "the CUDA driver", kAdvice);
}

/// "CUDA_ERROR_X: explanation".
std::string describe(CUresult result) {
  const CudaDriver& driver = cuda_driver();
  const char* name = nullptr;
  const char* explanation = nullptr;
  driver.get_error_name.result_of(result, &name);
  driver.get_error_string.result_of(result, &explanation);
  if (name == nullptr || explanation == nullptr) {
    return "error " + std::to_string(static_cast<int>(result)) +
           ", which this driver does not know";
  }
  return std::string(name) + ": " + explanation;
}

}  // namespace

bool DriverError::context_is_lost() const noexcept {
  switch (result_) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return true;
    default:
      return false;
  }
}

CudaDriver::CudaDriver() : library(open_driver()) {
  const CUresult result = init.result_of(0U);
  if (result == CUDA_SUCCESS) {
    return;
  }
  if (result == CUDA_ERROR_NOT_INITIALIZED) {  // By the CUDA of another library in this process.
    throw Error(ErrorCode::driver_failed, kForked);
  }
  // cuGetErrorName works without initialisation.
  const char* name = nullptr;
  get_error_name.result_of(result, &name);
  throw Error(ErrorCode::no_driver, "cuInit of " + library.name() + " reports " +
                                        (name != nullptr ? name : "an unknown error") + "; " +
                                        kAdvice);
}

const CudaDriver& cuda_driver() {
  // Kept until the process ends: the driver and CUPTI run threads of their own, so closing the
  // library is not safe.
  static const CudaDriver* const driver = [] {
    auto opened = std::make_unique<CudaDriver>();
    pthread_atfork(nullptr, nullptr, [] { was_forked = true; });
    return opened.release();
  }();
  return *driver;
}

CUcontext enter_context(const void* memory) {
  const CudaDriver& driver = cuda_driver();
  if (was_forked) {
    throw Error(ErrorCode::driver_failed, kForked);
  }
  CUcontext context = nullptr;
  driver.context_get_current(&context);
  if (context != nullptr) {
    return context;
  }
  int ordinal = 0;
  if (memory != nullptr) {
    driver.pointer_get_attribute(static_cast<void*>(&ordinal), CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 reinterpret_cast<CUdeviceptr>(memory));
  }
  CUdevice device = 0;
  driver.device_get(&device, ordinal);
  // Retained for ever: kernels are loaded into it.
  driver.primary_context_retain(&context, device);
  driver.context_set_current(context);
  return context;
}

void require_success(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) {
    throw DriverError(result, std::string(call) + " failed with " + describe(result));
  }
}

PrimaryContext::PrimaryContext(int device_ordinal) : device_ordinal_(device_ordinal) {
  const CudaDriver& driver = cuda_driver();
  int count = 0;
  driver.device_get_count(&count);
  if (device_ordinal < 0 || device_ordinal >= count) {
    throw Error(ErrorCode::invalid_argument, "GPU " + std::to_string(device_ordinal) +
                                                 " does not exist; this machine has " +
                                                 std::to_string(count) + ", counted from 0");
  }
  driver.device_get(&device_, device_ordinal);
  driver.primary_context_retain(&context_, device_);
  make_current();
}

void PrimaryContext::make_current() const { cuda_driver().context_set_current(context_); }

PrimaryContext::~PrimaryContext() {
  cuda_driver().context_set_current.result_of(static_cast<CUcontext>(nullptr));
  cuda_driver().primary_context_release.result_of(device_);
}

Stream::Stream() { cuda_driver().stream_create(&stream_, CU_STREAM_DEFAULT); }

Stream::~Stream() { cuda_driver().stream_destroy.result_of(stream_); }

void Stream::synchronize() const { cuda_driver().stream_synchronize(stream_); }

Event::Event() { cuda_driver().event_create(&event_, CU_EVENT_DEFAULT); }

Event::~Event() { cuda_driver().event_destroy.result_of(event_); }

void Event::record(const Stream& stream) const {
  cuda_driver().event_record(event_, stream.handle());
}

bool Event::is_over() const {
  const CUresult result = cuda_driver().event_query.result_of(event_);
  if (result != CUDA_ERROR_NOT_READY) {
    require_success(result, "cuEventQuery");
  }
  return result == CUDA_SUCCESS;
}

double Event::elapsed_us_since(const Event& start) const {
  cuda_driver().event_synchronize(event_);
  float elapsed_ms = 0.0F;
  cuda_driver().event_elapsed_time(&elapsed_ms, start.event_, event_);
  return static_cast<double>(elapsed_ms) * 1e3;
}

namespace {

CUgraph capture(const Stream& stream, const std::function<void()>& enqueue) {
  const CudaDriver& driver = cuda_driver();
  driver.stream_begin_capture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUgraph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    // Leaves the stream usable; the graph that it may hand out is void.
    driver.stream_end_capture.result_of(stream.handle(), &graph);
    throw;
  }
  driver.stream_end_capture(stream.handle(), &graph);
  return graph;
}

}  // namespace

Graph::Graph(const Stream& stream, const std::function<void()>& enqueue) {
  const CUgraph graph = capture(stream, enqueue);
  const CUresult result = cuda_driver().graph_instantiate.result_of(&executable_, graph, 0ULL);
  cuda_driver().graph_destroy.result_of(graph);
  require_success(result, "cuGraphInstantiateWithFlags");
}

Graph::~Graph() { cuda_driver().graph_exec_destroy.result_of(executable_); }

void Graph::launch(const Stream& stream) const {
  cuda_driver().graph_launch(executable_, stream.handle());
}

DeviceBuffer::DeviceBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
  const CUresult result = cuda_driver().mem_alloc.result_of(&address_, size_bytes);
  if (result != CUDA_SUCCESS) {
    throw DriverError(result, "allocating " + std::to_string(size_bytes) +
                                  " bytes of device memory failed with " + describe(result) +
                                  "; try a smaller problem");
  }
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ != 0) {
    cuda_driver().mem_free.result_of(address_);
  }
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : address_(std::exchange(other.address_, 0)), size_bytes_(other.size_bytes_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void DeviceBuffer::fill(unsigned char value, const Stream& stream) const {
  cuda_driver().memset_async(address_, value, size_bytes_, stream.handle());
}

void DeviceBuffer::upload(std::span<const std::byte> source) const {
  cuda_driver().copy_to_device(address_, static_cast<const void*>(source.data()), source.size());
}

void DeviceBuffer::download(std::span<std::byte> destination) const {
  cuda_driver().copy_to_host(static_cast<void*>(destination.data()), address_, destination.size());
}

Kernel::Kernel(std::span<const std::byte> cubin, const std::string& entry) {
  cuda_driver().module_load_data(&module_, static_cast<const void*>(cubin.data()));
  add_function(entry);
}

Kernel::Kernel(const CompiledKernel& compiled) : Kernel(compiled.cubin, compiled.entry) {
  may_overlap_ = compiled.may_overlap;
  for (const std::string& entry : compiled.further_entries) {
    add_function(entry);
  }
}

/// Unloads the module where it fails, for constructors that are not done.
void Kernel::add_function(const std::string& entry) {
  CUfunction function = nullptr;
  const CUresult result =
      cuda_driver().module_get_function.result_of(&function, module_, entry.c_str());
  if (result != CUDA_SUCCESS) {
    cuda_driver().module_unload.result_of(std::exchange(module_, nullptr));
    throw DriverError(result,
                      "the cubin has no usable kernel '" + entry + "': " + describe(result));
  }
  functions_.push_back(function);
}

Kernel::~Kernel() {
  if (module_ != nullptr) {
    cuda_driver().module_unload.result_of(module_);
  }
}

Kernel::Kernel(Kernel&& other) noexcept
    : module_(std::exchange(other.module_, nullptr)),
      functions_(std::move(other.functions_)),
      may_overlap_(other.may_overlap_) {}

Kernel& Kernel::operator=(Kernel&& other) noexcept {
  std::swap(module_, other.module_);
  std::swap(functions_, other.functions_);
  std::swap(may_overlap_, other.may_overlap_);
  return *this;
}

void Kernel::allow_dynamic_smem(int size_bytes, std::size_t entry) const {
  cuda_driver().function_set_attribute(functions_[entry],
                                       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, size_bytes);
}

void Kernel::set_variable(const std::string& name, std::span<const std::byte> value) const {
  CUdeviceptr address = 0;
  std::size_t size_bytes = 0;
  const CUresult result =
      cuda_driver().module_get_global.result_of(&address, &size_bytes, module_, name.c_str());
  if (result != CUDA_SUCCESS) {
    throw DriverError(result, "the cubin has no variable '" + name + "': " + describe(result));
  }
  if (size_bytes != value.size()) {
    throw Error(ErrorCode::invalid_argument,
                "variable '" + name + "' of the kernel has " + std::to_string(size_bytes) +
                    " bytes, and its argument has " + std::to_string(value.size()));
  }
  cuda_driver().copy_to_device(address, static_cast<const void*>(value.data()), value.size());
}

void Kernel::enqueue(const LaunchShape& shape, const Stream& stream, void** arguments,
                     std::size_t entry) const {
  cuda_driver().launch_kernel(functions_[entry], shape.grid_x, shape.grid_y, shape.grid_z,
                              shape.block_x, shape.block_y, shape.block_z, shape.dynamic_smem_bytes,
                              stream.handle(), arguments, static_cast<void**>(nullptr));
}

}  // namespace swr
