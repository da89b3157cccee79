// SPDX-License-Identifier: MIT
// Runs attention on the first GPU with the best stored kernel, then captures the call in a CUDA
// graph and replays it: both give the same output. Uses the CUDA driver API alone.
//   usage: attention DATABASE
#include <swr/swr.h>

#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <stdexcept>
#include <vector>

namespace {

/// A driver function by name, so that the example links no CUDA library.
template <typename Function, typename... Arguments>
void cuda(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr || reinterpret_cast<Function*>(symbol)(arguments...) != CUDA_SUCCESS) {
    throw std::runtime_error(std::string(name) + " failed");
  }
}

constexpr int kHeads = 8;
constexpr int kSeq = 1000;
constexpr int kHeadDim = 128;
constexpr std::size_t kElements = std::size_t{kHeads} * kSeq * kHeadDim;

CUdeviceptr upload(const std::vector<std::uint16_t>& elements) {
  CUdeviceptr address = 0;
  cuda<decltype(cuMemAlloc)>("cuMemAlloc_v2", &address, elements.size() * 2);
  cuda<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2", address, elements.data(), elements.size() * 2);
  return address;
}

std::vector<std::uint16_t> download(CUdeviceptr address) {
  std::vector<std::uint16_t> elements(kElements);
  cuda<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2", elements.data(), address, kElements * 2);
  return elements;
}

/// fp16 values between 1 and 2, which differ from element to element.
std::vector<std::uint16_t> some_elements(unsigned seed) {
  std::vector<std::uint16_t> elements(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    elements[i] = static_cast<std::uint16_t>(0x3c00U | ((i * 2654435761U + seed) >> 12 & 0x3ffU));
  }
  return elements;
}

swr::AttentionCall make_call(CUdeviceptr q, CUdeviceptr k, CUdeviceptr v, CUdeviceptr o) {
  swr::AttentionCall call{.head_dim = kHeadDim, .dtype = swr::DType::fp16, .causal = true};
  swr::AttentionParams& p = call.params;
  p.q = reinterpret_cast<const void*>(q);
  p.k = reinterpret_cast<const void*>(k);
  p.v = reinterpret_cast<const void*>(v);
  p.o = reinterpret_cast<void*>(o);
  p.batch = 1;
  p.heads_q = p.heads_kv = kHeads;
  p.seq_q = p.seq_kv = kSeq;
  p.q_strides = p.k_strides = p.v_strides =
      p.o_strides = {static_cast<long long>(kElements), kSeq * kHeadDim, kHeadDim};
  return call;
}

CUgraphExec capture(swr::Runtime& runtime, const swr::AttentionCall& call, CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  cuda<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2", stream,
                                       CU_STREAM_CAPTURE_MODE_GLOBAL);
  runtime.attention(call, stream);
  cuda<decltype(cuStreamEndCapture)>("cuStreamEndCapture", stream, &graph);
  cuda<decltype(cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags", &executable, graph,
                                              0ULL);
  return executable;
}

bool run(const char* database) {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  cuda<decltype(cuInit)>("cuInit", 0U);
  cuda<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context, CUdevice{0});
  cuda<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context);
  cuda<decltype(cuStreamCreate)>("cuStreamCreate", &stream, unsigned{CU_STREAM_NON_BLOCKING});
  const CUdeviceptr o = upload(std::vector<std::uint16_t>(kElements));
  const swr::AttentionCall call =
      make_call(upload(some_elements(1)), upload(some_elements(2)), upload(some_elements(3)), o);

  swr::Runtime runtime({.database = database});
  const swr::Answer answer = runtime.prepare(problem_of(call));
  std::cout << to_string(answer.level) << ": " << to_key(answer.variant) << "\n";
  runtime.attention(call, stream);
  cuda<decltype(cuStreamSynchronize)>("cuStreamSynchronize", stream);
  const auto once = download(o);

  const CUgraphExec graph = capture(runtime, call, stream);
  for (int i = 0; i < 1000; ++i) {
    cuda<decltype(cuGraphLaunch)>("cuGraphLaunch", graph, stream);
  }
  cuda<decltype(cuStreamSynchronize)>("cuStreamSynchronize", stream);
  return download(o) == once;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: attention DATABASE\n";
    return 2;
  }
  try {
    const bool same = run(argv[1]);
    std::cout << "1000 replays of the captured call give "
              << (same ? "the same output\n" : "another output\n");
    return same ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "attention: " << error.what() << "\n";
    return 1;
  }
}
