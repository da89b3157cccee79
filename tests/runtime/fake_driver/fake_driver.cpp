// SPDX-License-Identifier: MIT
#include "tests/runtime/fake_driver/fake_driver.h"

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <span>

// cuda.h renames some functions to their current version; what is exported here are these names.

struct CUctx_st {
  int device;
};
struct CUfunc_st {
  CUmodule module;
  FakeKernel* kernel;  ///< What it does, where a test defines it.
  bool is_gemm;        ///< Its argument is a GemmParams, not an AttentionParams.
  bool is_softmax;     ///< It is a SoftmaxParams.
  bool is_serving;     ///< It is a ServingAttentionParams.
  bool is_append;      ///< It is a KvAppendParams.
  bool is_merge;       ///< It is a MergeStatesParams.
  bool is_backward;    ///< It is an AttentionBackwardParams.
  int dynamic_smem_bytes;
};
constexpr int kMostFunctions = 8;
struct CUmod_st {
  CUcontext context;
  CUfunc_st functions[kMostFunctions];
  int function_count;
};

namespace {

constexpr int kDevices = 2;
CUctx_st contexts[kDevices] = {{0}, {1}};
thread_local CUcontext current = nullptr;
thread_local FakeLaunch last_launch{};
thread_local swr::ServingAttentionParams last_serving{};
thread_local swr::KvAppendParams last_append{};
thread_local swr::MergeStatesParams last_merge{};
thread_local swr::AttentionBackwardParams last_backward{};
std::atomic<long long> loads = 0;
std::atomic<long long> unloads = 0;
std::atomic<long long> launches = 0;
std::atomic<long long> memsets = 0;
std::atomic<long long> tensor_maps = 0;
std::atomic<long long> replaced_addresses = 0;
std::atomic<bool> refuses_to_replace = false;
thread_local CUstream captured_stream = nullptr;

int attribute(CUdevice_attribute name) {
  switch (name) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 96;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 40 << 20;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2000000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 4000;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 100 * 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 128 * 1024;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

FakeLaunch fake_last_launch() { return last_launch; }
const char* fake_last_gemm() {
  static thread_local std::array<char, 256> line;
  const swr::GemmParams& p = last_launch.gemm;
  std::snprintf(line.data(), line.size(),
                "grid %u cluster %u block %u smem %u raster %d group %d stride %d splits %d "
                "partials %p arrivals %p overlaps %d",
                last_launch.grid_x, last_launch.cluster_x, last_launch.block_x,
                last_launch.dynamic_smem_bytes, static_cast<int>(p.raster), p.raster_group,
                p.swizzle_stride, p.splits, static_cast<void*>(p.partials),
                static_cast<void*>(p.arrivals), fake_last_overlaps());
  return line.data();
}
const char* fake_last_softmax() {
  static thread_local std::array<char, 256> line;
  const swr::SoftmaxParams& p = last_launch.softmax;
  std::snprintf(line.data(), line.size(),
                "grid %u block %u smem %u rows %d columns %d strides %lld %lld", last_launch.grid_x,
                last_launch.block_x, last_launch.dynamic_smem_bytes, p.rows, p.columns, p.x_stride,
                p.y_stride);
  return line.data();
}
const swr::ServingAttentionParams* fake_last_serving() { return &last_serving; }
const swr::KvAppendParams* fake_last_append() { return &last_append; }
const swr::MergeStatesParams* fake_last_merge() { return &last_merge; }
const swr::AttentionBackwardParams* fake_last_backward() { return &last_backward; }
int fake_last_overlaps() { return last_launch.overlaps ? 1 : 0; }
long long fake_module_loads() { return loads; }
long long fake_launches() { return launches; }
long long fake_memsets() { return memsets; }
long long fake_tensor_maps() { return tensor_maps; }
long long fake_replaced_addresses() { return replaced_addresses; }
void fake_refuse_to_replace_addresses(bool refuse) { refuses_to_replace = refuse; }
long long fake_modules_alive() { return loads - unloads; }
int fake_device_count() { return kDevices; }
void fake_capture(CUstream stream) { captured_stream = stream; }

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult /*error*/, const char** text) {
  *text = "the fake driver refuses";
  return CUDA_SUCCESS;
}
CUresult cuInit(unsigned /*flags*/) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal < kDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:0%d:00.0", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute name, CUdevice /*device*/) {
  *value = attribute(name);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = &contexts[device];
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice /*device*/) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  if (current == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *device = current->device;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute /*name*/, CUdeviceptr /*memory*/) {
  // All memory that names no context lies on the second device.
  const int device = 1;
  std::memcpy(value, &device, sizeof(device));
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode kept = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const CUstreamCaptureMode former = kept;
  kept = *mode;
  *mode = former;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* address, std::size_t size_bytes) {
  *address = reinterpret_cast<CUdeviceptr>(std::malloc(size_bytes));
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* all_bytes) {
  constexpr std::size_t kAll = std::size_t{16} << 30;
  *free_bytes = kAll;
  *all_bytes = kAll;
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t size_bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, size_bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t size_bytes) {
  std::memcpy(to, reinterpret_cast<const void*>(from), size_bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size_bytes,
                           CUstream /*stream*/) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size_bytes);
  return CUDA_SUCCESS;
}
/// An array is memory in the order of its elements.
CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* how) {
  constexpr std::size_t kMostBytesOfElement = 16;
  const std::size_t count =
      how->Width * std::max<std::size_t>(how->Height, 1) * std::max<std::size_t>(how->Depth, 1);
  *array = static_cast<CUarray>(std::calloc(count, kMostBytesOfElement));
  return CUDA_SUCCESS;
}
CUresult cuArrayDestroy(CUarray array) {
  std::free(array);
  return CUDA_SUCCESS;
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D* copy) {
  std::memcpy(copy->dstArray, copy->srcHost, copy->WidthInBytes * copy->Height * copy->Depth);
  return CUDA_SUCCESS;
}
/// A texture's number is the address of its memory.
CUresult cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* /*how*/,
                           const CUDA_RESOURCE_VIEW_DESC* /*view*/) {
  *texture = resource->resType == CU_RESOURCE_TYPE_ARRAY
                 ? reinterpret_cast<CUtexObject>(resource->res.array.hArray)
                 : resource->res.pitch2D.devPtr;
  return CUDA_SUCCESS;
}
CUresult cuTexObjectDestroy(CUtexObject /*texture*/) { return CUDA_SUCCESS; }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t size_bytes,
                         CUstream /*stream*/) {
  ++memsets;
  std::memset(reinterpret_cast<void*>(to), value, size_bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value,
                           std::size_t width, std::size_t height, CUstream /*stream*/) {
  ++memsets;
  for (std::size_t row = 0; row < height; ++row) {
    std::memset(reinterpret_cast<void*>(to + row * pitch), value, width);
  }
  return CUDA_SUCCESS;
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t words, CUstream /*stream*/) {
  ++memsets;
  std::fill_n(reinterpret_cast<unsigned*>(to), words, value);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void* /*image*/) {
  if (current == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *module = static_cast<CUmodule>(std::calloc(1, sizeof(CUmod_st)));
  (*module)->context = current;
  ++loads;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  if (module->context != current) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  std::free(module);
  ++unloads;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (module->function_count == kMostFunctions) {
    return CUDA_ERROR_NOT_FOUND;
  }
  *function = &module->functions[module->function_count++];
  (*function)->module = module;
  char symbol[256];
  std::snprintf(symbol, sizeof symbol, "fake_kernel_%s", name);
  (*function)->kernel = reinterpret_cast<FakeKernel*>(dlsym(RTLD_DEFAULT, symbol));
  (*function)->is_gemm = std::strcmp(name, "swr_gemm") == 0;
  (*function)->is_softmax = std::strcmp(name, "swr_softmax") == 0;
  (*function)->is_serving = std::strcmp(name, "swr_serving_attention") == 0;
  (*function)->is_append = std::strncmp(name, "swr_append_kv", 13) == 0;
  (*function)->is_merge = std::strncmp(name, "swr_merge_states", 16) == 0;
  constexpr const char* kBackward = "swr_attention_backward_";
  (*function)->is_backward = std::strncmp(name, kBackward, std::strlen(kBackward)) == 0;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule /*module*/,
                              const char* name) {
  char symbol[256];
  std::snprintf(symbol, sizeof symbol, "fake_variable_%s", name);
  const auto* const variable = static_cast<const FakeVariable*>(dlsym(RTLD_DEFAULT, symbol));
  if (variable == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  *address = reinterpret_cast<CUdeviceptr>(variable->memory);
  *bytes = variable->bytes;
  return CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  *module = function->module;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* ctas, CUfunction /*function*/,
                                                     int /*threads*/, std::size_t smem_bytes) {
  constexpr std::size_t kPerSm = 128 * 1024;
  constexpr std::size_t kReserved = 1024;
  *ctas = static_cast<int>(kPerSm / (smem_bytes + kReserved));
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute /*name*/, int value) {
  function->dynamic_smem_bytes = value;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem_bytes,
                        CUstream /*stream*/, void** arguments, void** /*extra*/) {
  if (function->kernel == nullptr) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  function->kernel({{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, smem_bytes}, arguments);
  ++launches;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void** /*extra*/) {
  if (current == nullptr || function->module->context != current) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (static_cast<int>(config->sharedMemBytes) > function->dynamic_smem_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (function->kernel != nullptr) {
    function->kernel({{config->gridDimX, config->gridDimY, config->gridDimZ},
                      {config->blockDimX, config->blockDimY, config->blockDimZ},
                      config->sharedMemBytes},
                     arguments);
    ++launches;
    return CUDA_SUCCESS;
  }
  last_launch = {config->gridDimX,
                 config->blockDimX,
                 config->sharedMemBytes,
                 config->hStream,
                 function,
                 current->device,
                 {},
                 {},
                 {},
                 1,
                 false,
                 {}};
  if (function->is_backward) {
    last_backward = *static_cast<const swr::AttentionBackwardParams*>(arguments[0]);
  } else if (function->is_serving) {
    last_serving = *static_cast<const swr::ServingAttentionParams*>(arguments[0]);
  } else if (function->is_append) {
    last_append = *static_cast<const swr::KvAppendParams*>(arguments[0]);
  } else if (function->is_merge) {
    last_merge = *static_cast<const swr::MergeStatesParams*>(arguments[0]);
  } else if (function->is_softmax) {
    last_launch.softmax = *static_cast<const swr::SoftmaxParams*>(arguments[0]);
  } else if (function->is_gemm) {
    last_launch.gemm = *static_cast<const swr::GemmParams*>(arguments[0]);
    last_launch.gemm_extras = *static_cast<const swr::GemmExtras*>(arguments[4]);
  } else {
    last_launch.params = *static_cast<const swr::AttentionParams*>(arguments[0]);
  }
  for (const CUlaunchAttribute& attribute : std::span(config->attrs, config->numAttrs)) {
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      last_launch.cluster_x = attribute.value.clusterDim.x;
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      last_launch.overlaps = attribute.value.programmaticStreamSerializationAllowed != 0;
    }
  }
  ++launches;
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  ++tensor_maps;
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // A map that tells of every argument, as far as its size allows: enums share a word, the rest is
  // added up with other weights.
  cuuint64_t sum = 0;
  for (cuuint32_t i = 0; i < rank; ++i) {
    sum = sum * 31 + element_strides[i];
    sum = sum * 31 + box[i];
  }
  *map = {};
  map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
  map->opaque[1] = rank;
  map->opaque[2] = static_cast<cuuint64_t>(type) << 32U |
                   static_cast<cuuint64_t>(interleave) << 24U |
                   static_cast<cuuint64_t>(swizzle) << 16U |
                   static_cast<cuuint64_t>(promotion) << 8U | static_cast<cuuint64_t>(fill);
  map->opaque[3] = sum;
  map->opaque[4] = static_cast<cuuint64_t>(current == nullptr ? -1 : current->device);
  std::copy_n(sizes, rank, map->opaque + 5);
  std::copy_n(strides, rank - 1, map->opaque + 10);
  return CUDA_SUCCESS;
}
CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (refuses_to_replace || reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++replaced_addresses;
  map->opaque[0] = reinterpret_cast<cuuint64_t>(address);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned /*flags*/) {
  *stream = static_cast<CUstream>(std::malloc(1));
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  std::free(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream /*stream*/) { return CUDA_SUCCESS; }
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = stream != nullptr && stream == captured_stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                           : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  *id = reinterpret_cast<unsigned long long>(stream);
  return stream == captured_stream && stream != nullptr ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                        : CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned /*flags*/) {
  *event = static_cast<CUevent>(std::malloc(1));
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  std::free(event);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent /*event*/, CUstream /*stream*/) { return CUDA_SUCCESS; }
CUresult cuEventQuery(CUevent /*event*/) { return CUDA_SUCCESS; }
CUresult cuEventSynchronize(CUevent /*event*/) { return CUDA_SUCCESS; }
// The first version, which is the one that swr opens.
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* elapsed_ms, CUevent /*start*/, CUevent /*end*/) {
  *elapsed_ms = 0.0F;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream /*stream*/, CUstreamCaptureMode /*mode*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamEndCapture(CUstream /*stream*/, CUgraph* /*graph*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* /*exec*/, CUgraph /*graph*/,
                                     unsigned long long /*flags*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphLaunch(CUgraphExec /*exec*/, CUstream /*stream*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphExecDestroy(CUgraphExec /*exec*/) { return CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph /*graph*/) { return CUDA_SUCCESS; }
}
