// SPDX-License-Identifier: MIT
// Runs attention from an exported package and compares it with a plain computation on the CPU;
// then replays the captured call 1000 times, which must give the same bytes.
//   usage: package_attention HEAD_DIM [causal]
#include "device.h"

#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <tuned_kernels/attention.h>
#include <vector>

namespace {

constexpr int kHeads = 2;
constexpr int kSeq = 300;

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
  device.replay([&] { attention.run(call, device.stream()); });
  const bool same = device.finish(o, count) == once;
  std::cout << "1000 replays give " << (same ? "the same" : "another") << " output\n";
  return error < 2e-3 && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: package_attention HEAD_DIM [causal]\n";
    return 2;
  }
  try {
    return run(std::atoi(argv[1]), argc > 2 && std::string(argv[2]) == "causal");
  } catch (const std::exception& error) {
    std::cerr << "package_attention: " << error.what() << "\n";
    return 1;
  }
}
