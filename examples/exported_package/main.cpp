// SPDX-License-Identifier: MIT
// Runs attention from an exported package and compares it with a plain computation on the CPU;
// then replays the captured call 1000 times, which must give the same bytes.
//   usage: package_example HEAD_DIM [causal]
#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <iostream>
#include <stdexcept>
#include <string>
#include <tuned_kernels/attention.h>
#include <vector>

namespace {

constexpr int kHeads = 2;
constexpr int kSeq = 300;

template <typename Function, typename... Arguments>
void cuda(const char* name, Arguments... arguments) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, name);
  if (symbol == nullptr || reinterpret_cast<Function*>(symbol)(arguments...) != CUDA_SUCCESS) {
    throw std::runtime_error(std::string(name) + " failed");
  }
}

using Halves = std::vector<std::uint16_t>;

double value_of(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

/// fp16 numbers between -2 and 2.
Halves some_halves(std::size_t count, unsigned seed) {
  Halves halves(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bits = (i + seed * 977) * 2654435761U >> 7;
    halves[i] = static_cast<std::uint16_t>((bits & 0x8000) | 0x3800 | (bits & 0x7ff));
  }
  return halves;
}

CUdeviceptr upload(const Halves& halves) {
  CUdeviceptr address = 0;
  cuda<decltype(cuMemAlloc)>("cuMemAlloc_v2", &address, halves.size() * 2);
  cuda<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2", address, halves.data(), halves.size() * 2);
  return address;
}

struct Problem {
  int head_dim;
  bool causal;
  Halves q, k, v;

  std::size_t row(int head, int position) const {
    return (static_cast<std::size_t>(head) * kSeq + position) * head_dim;
  }
};

/// One row of O.
std::vector<double> expected_row(const Problem& p, int head, int position) {
  const int keys = p.causal ? position + 1 : kSeq;
  std::vector<double> out(p.head_dim, 0.0);
  double total = 0.0;
  for (int key = 0; key < keys; ++key) {
    double score = 0.0;
    for (int d = 0; d < p.head_dim; ++d) {
      score += value_of(p.q[p.row(head, position) + d]) * value_of(p.k[p.row(head, key) + d]);
    }
    // Scores of these inputs are far below where exp overflows.
    const double weight = std::exp(score / std::sqrt(p.head_dim));
    total += weight;
    for (int d = 0; d < p.head_dim; ++d) {
      out[d] += weight * value_of(p.v[p.row(head, key) + d]);
    }
  }
  for (double& value : out) {
    value /= total;
  }
  return out;
}

double relative_error(const Problem& p, const Halves& o) {
  double error = 0.0;
  double norm = 0.0;
  for (int head = 0; head < kHeads; ++head) {
    for (int position = 0; position < kSeq; ++position) {
      const std::vector<double> expected = expected_row(p, head, position);
      for (int d = 0; d < p.head_dim; ++d) {
        const double difference = value_of(o[p.row(head, position) + d]) - expected[d];
        error += difference * difference;
        norm += expected[d] * expected[d];
      }
    }
  }
  return std::sqrt(error / norm);
}

class Device {
 public:
  Device() {
    cuda<decltype(cuInit)>("cuInit", 0U);
    cuda<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context_, CUdevice{0});
    cuda<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context_);
    cuda<decltype(cuStreamCreate)>("cuStreamCreate", &stream_, unsigned{CU_STREAM_NON_BLOCKING});
  }
  CUstream stream() const { return stream_; }
  Halves finish(CUdeviceptr o, std::size_t count) const {
    Halves halves(count);
    cuda<decltype(cuStreamSynchronize)>("cuStreamSynchronize", stream_);
    cuda<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2", halves.data(), o, count * 2);
    return halves;
  }

 private:
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

void replay(tuned_kernels::Attention& attention, const tuned_kernels::Call& call,
            CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  cuda<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2", stream,
                                       CU_STREAM_CAPTURE_MODE_GLOBAL);
  attention.run(call, stream);
  cuda<decltype(cuStreamEndCapture)>("cuStreamEndCapture", stream, &graph);
  cuda<decltype(cuGraphInstantiateWithFlags)>("cuGraphInstantiateWithFlags", &executable, graph,
                                              0ULL);
  for (int i = 0; i < 1000; ++i) {
    cuda<decltype(cuGraphLaunch)>("cuGraphLaunch", executable, stream);
  }
}

int run(int head_dim, bool causal) {
  const Device device;
  const std::size_t count = static_cast<std::size_t>(kHeads) * kSeq * head_dim;
  const Problem p{head_dim, causal, some_halves(count, 1), some_halves(count, 2),
                  some_halves(count, 3)};
  const CUdeviceptr o = upload(Halves(count));
  tuned_kernels::Call call;
  call.params.q = reinterpret_cast<const void*>(upload(p.q));
  call.params.k = reinterpret_cast<const void*>(upload(p.k));
  call.params.v = reinterpret_cast<const void*>(upload(p.v));
  call.params.o = reinterpret_cast<void*>(o);
  call.params.batch = 1;
  call.params.heads_q = call.params.heads_kv = kHeads;
  call.params.seq_q = call.params.seq_kv = kSeq;
  const tuned_kernels::TensorStrides strides{static_cast<long long>(count), 1LL * kSeq * head_dim,
                                               head_dim};
  call.params.q_strides = call.params.k_strides = strides;
  call.params.v_strides = call.params.o_strides = strides;
  call.head_dim = head_dim;
  call.causal = causal;

  tuned_kernels::Attention attention;
  const tuned_kernels::Choice choice = attention.prepare(call);
  std::cout << "kernel " << choice.kernel << ", " << choice.distance << " octaves away\n";
  attention.run(call, device.stream());
  const Halves once = device.finish(o, count);
  const double error = relative_error(p, once);
  std::cout << "relative error " << error << "\n";
  replay(attention, call, device.stream());
  const bool same = device.finish(o, count) == once;
  std::cout << "1000 replays give " << (same ? "the same" : "another") << " output\n";
  return error < 2e-3 && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: package_example HEAD_DIM [causal]\n";
    return 2;
  }
  try {
    return run(std::atoi(argv[1]), argc > 2 && std::string(argv[2]) == "causal");
  } catch (const std::exception& error) {
    std::cerr << "package_example: " << error.what() << "\n";
    return 1;
  }
}
