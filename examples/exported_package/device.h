// SPDX-License-Identifier: MIT
// The driver API without a CUDA library, and what both examples do with it.
#pragma once

#include <cuda.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <vector>

template <typename Function, typename... Arguments>
void cuda(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr || reinterpret_cast<Function*>(symbol)(arguments...) != CUDA_SUCCESS) {
    throw std::runtime_error(std::string(name) + " failed");
  }
}

using Halves = std::vector<std::uint16_t>;

inline double value_of(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

/// fp16 numbers between -2 and 2.
inline Halves some_halves(std::size_t count, unsigned seed) {
  Halves halves(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bits = (i + seed * 977) * 2654435761U >> 7;
    halves[i] = static_cast<std::uint16_t>((bits & 0x8000) | 0x3800 | (bits & 0x7ff));
  }
  return halves;
}

inline CUdeviceptr upload(const Halves& halves) {
  CUdeviceptr address = 0;
  cuda<decltype(cuMemAlloc)>("cuMemAlloc_v2", &address, halves.size() * 2);
  cuda<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2", address, halves.data(), halves.size() * 2);
  return address;
}

/// The first GPU with its primary context, current on this thread, and a stream.
class Device {
 public:
  Device() {
    cuda<decltype(cuInit)>("cuInit", 0U);
    cuda<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context_, CUdevice{0});
    cuda<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context_);
    cuda<decltype(cuStreamCreate)>("cuStreamCreate", &stream_, unsigned{CU_STREAM_NON_BLOCKING});
  }
  CUstream stream() const { return stream_; }

  /// Waits for the stream and gives what was computed.
  Halves finish(CUdeviceptr output, std::size_t count) const {
    Halves halves(count);
    cuda<decltype(cuStreamSynchronize)>("cuStreamSynchronize", stream_);
    cuda<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2", halves.data(), output, count * 2);
    return halves;
  }

  /// Captures enqueue() in a graph and launches that 1000 times.
  template <typename Enqueue>
  void replay(Enqueue&& enqueue) const {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    cuda<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2", stream_,
                                         CU_STREAM_CAPTURE_MODE_GLOBAL);
    enqueue();
    cuda<decltype(cuStreamEndCapture)>("cuStreamEndCapture", stream_, &graph);
    cuda<decltype(cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags", &executable, graph,
                                                0ULL);
    for (int i = 0; i < 1000; ++i) {
      cuda<decltype(cuGraphLaunch)>("cuGraphLaunch", executable, stream_);
    }
  }

 private:
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};
