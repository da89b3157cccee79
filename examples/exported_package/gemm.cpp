// SPDX-License-Identifier: MIT
// Runs C = A B^T from an exported package and compares it with a plain computation on the CPU, in
// memory of the package and in a workspace of the caller; then replays the captured call 1000
// times, which must give the same bytes.
//   usage: package_gemm M N K
#include "device.h"

#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <numeric>
#include <tuned_kernels/gemm.h>
#include <vector>

namespace {

/// A linear layer: X [m, k], weights [n, k], all fp16.
struct Layer {
  int m;
  int n;
  int k;
  Halves x;
  Halves weights;
};

std::vector<double> values_of(const Halves& halves) {
  std::vector<double> values;
  for (const std::uint16_t half : halves) {
    values.push_back(value_of(half));
  }
  return values;
}

/// Over about 65536 elements of C, spread over all rows and columns.
double relative_error(const Layer& layer, const Halves& c) {
  const std::vector<double> x = values_of(layer.x);
  const std::vector<double> weights = values_of(layer.weights);
  // Odd, so that the columns differ from row to row.
  const std::size_t step = c.size() / 65536 | 1;
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t at = 0; at < c.size(); at += step) {
    const double* const row = x.data() + at / layer.n * layer.k;
    const double* const column = weights.data() + at % layer.n * layer.k;
    const double expected = std::inner_product(row, row + layer.k, column, 0.0);
    const double difference = value_of(c[at]) - expected;
    error += difference * difference;
    norm += expected * expected;
  }
  return std::sqrt(error / norm);
}

tuned_kernels::GemmCall call_of(const Layer& layer, CUdeviceptr c) {
  tuned_kernels::GemmCall call;
  call.params.a = reinterpret_cast<const void*>(upload(layer.x));
  call.params.b = reinterpret_cast<const void*>(upload(layer.weights));
  call.params.c = reinterpret_cast<void*>(c);
  call.params.m = layer.m;
  call.params.n = layer.n;
  call.params.k = layer.k;
  call.params.a_strides.row = call.params.b_strides.row = layer.k;
  call.params.c_strides.row = layer.n;
  call.dtype = tuned_kernels::DType::fp16;
  call.output = tuned_kernels::OutputType::fp16;
  call.layout = tuned_kernels::GemmLayout::nt;
  return call;
}

int run(int m, int n, int k) {
  const Device device;
  const Layer layer{m, n, k, some_halves(static_cast<std::size_t>(m) * k, 1),
                    some_halves(static_cast<std::size_t>(n) * k, 2)};
  const std::size_t count = static_cast<std::size_t>(m) * n;
  const CUdeviceptr c = upload(Halves(count));
  const tuned_kernels::GemmCall call = call_of(layer, c);

  tuned_kernels::Gemm gemm;
  const tuned_kernels::Choice choice = gemm.prepare(call);
  std::cout << "kernel " << choice.kernel << ", " << choice.distance << " octaves away\n";
  gemm.run(call, device.stream());
  const Halves once = device.finish(c, count);
  const double error = relative_error(layer, once);
  std::cout << "relative error " << error << "\n";

  const std::size_t bytes = gemm.workspace_bytes(call);
  const CUdeviceptr workspace = upload(Halves(bytes / 2 + 8, 0xffff));
  gemm.run(call, {reinterpret_cast<void*>(workspace), bytes}, device.stream());
  const bool same_there = device.finish(c, count) == once;
  std::cout << "a workspace of " << bytes << " bytes gives "
            << (same_there ? "the same" : "another") << " output\n";

  device.replay([&] { gemm.run(call, device.stream()); });
  const bool same = device.finish(c, count) == once;
  std::cout << "1000 replays give " << (same ? "the same" : "another") << " output\n";
  return error < 2e-3 && same_there && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: package_gemm M N K\n";
    return 2;
  }
  try {
    return run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
  } catch (const std::exception& error) {
    std::cerr << "package_gemm: " << error.what() << "\n";
    return 1;
  }
}
