// SPDX-License-Identifier: MIT
#include "tests/gpu/driver_api_launcher.h"

#include <cuda.h>

#include <dlfcn.h>
#include <stdexcept>

namespace {

void require(CUresult result, const std::string& call) {
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error(call + " failed with " + std::to_string(static_cast<int>(result)));
  }
}

/// Calls a function of the driver by name. A program that links libcuda calls it directly.
template <typename Function, typename... Arguments>
void call(const std::string& name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name.c_str());
  if (symbol == nullptr) {
    throw std::runtime_error("the driver has no " + name);
  }
  require(reinterpret_cast<Function*>(symbol)(arguments...), name);
}

CUdeviceptr allocate(std::size_t size_bytes) {
  CUdeviceptr address = 0;
  call<decltype(cuMemAlloc)>("cuMemAlloc_v2", &address, size_bytes);
  return address;
}

void* upload(const std::vector<std::uint16_t>& elements) {
  const CUdeviceptr address = allocate(elements.size() * 2);
  call<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2", address, elements.data(), elements.size() * 2);
  return reinterpret_cast<void*>(address);
}

void release(const void* pointer) {
  call<decltype(cuMemFree)>("cuMemFree_v2", reinterpret_cast<CUdeviceptr>(pointer));
}

void launch(const ShippedKernel& shipped, swr::AttentionParams& params) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  call<decltype(cuModuleLoadData)>("cuModuleLoadData", &module, shipped.cubin.data());
  call<decltype(cuModuleGetFunction)>("cuModuleGetFunction", &function, module,
                                      shipped.entry.c_str());
  call<decltype(cuFuncSetAttribute)>("cuFuncSetAttribute", function,
                                     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     static_cast<int>(shipped.dynamic_smem_bytes));
  void* arguments[] = {&params};
  call<decltype(cuLaunchKernel)>("cuLaunchKernel", function, shipped.grid_x, 1U, 1U,
                                 shipped.block_x, 1U, 1U, shipped.dynamic_smem_bytes, nullptr,
                                 arguments, nullptr);
  call<decltype(cuCtxSynchronize)>("cuCtxSynchronize");
  call<decltype(cuModuleUnload)>("cuModuleUnload", module);
}

}  // namespace

std::vector<std::uint16_t> run_shipped_kernel(const ShippedKernel& shipped,
                                              swr::AttentionParams params,
                                              const std::vector<std::uint16_t>& q,
                                              const std::vector<std::uint16_t>& k,
                                              const std::vector<std::uint16_t>& v) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  call<decltype(cuInit)>("cuInit", 0U);
  call<decltype(cuDeviceGet)>("cuDeviceGet", &device, 0);
  call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context, device);
  call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context);
  std::vector<std::uint16_t> o(q.size(), 0xffff);
  params.q = upload(q);
  params.k = upload(k);
  params.v = upload(v);
  params.o = upload(o);
  launch(shipped, params);
  call<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2", o.data(), reinterpret_cast<CUdeviceptr>(params.o),
                               o.size() * 2);
  for (const void* pointer : {params.q, params.k, params.v, static_cast<const void*>(params.o)}) {
    release(pointer);
  }
  call<decltype(cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease_v2", device);
  return o;
}
