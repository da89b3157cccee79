// SPDX-License-Identifier: MIT
// What Runtime::attention costs a thread beyond the bare driver call: both enqueue the same kernel.
// Argument: a directory that swr-tune export wrote. Needs its GPU. docs/results/runtime.md
// publishes the numbers.
#include "core/launch.h"
#include "runtime/manifest.h"
#include "tuner/driver/cuda_driver.h"
#include <swr/runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// Nanoseconds per call in rounds that the launch queue holds, so that no call waits for the GPU.
std::vector<double> rounds_ns(const swr::Stream& stream, const std::function<void()>& call) {
  constexpr int kRounds = 2000;
  constexpr int kCalls = 64;
  std::vector<double> samples;
  for (int round = 0; round < kRounds; ++round) {
    stream.synchronize();
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      call();
    }
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
    samples.push_back(elapsed.count() / kCalls);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

void print(const char* what, const std::vector<double>& samples) {
  std::printf("%-18s p50 %7.1f ns  p99 %7.1f ns\n", what, samples[samples.size() / 2],
              samples[samples.size() * 99 / 100]);
}

/// A small problem of the manifest's first kernel, on memory of its own.
struct Work {
  explicit Work(const swr::ExportedKernel& kernel) : problem(kernel.problem) {
    problem.batch = 1;
    problem.heads_q = problem.heads_kv = 1;
    problem.seq_q = problem.seq_kv = 64;
    const auto address = reinterpret_cast<void*>(memory.address());
    swr::AttentionParams& p = call.params;
    p.q = p.k = p.v = p.o = address;
    p.batch = p.heads_q = p.heads_kv = 1;
    p.seq_q = p.seq_kv = 64;
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = {0, 0, problem.head_dim};
    p.scale_log2 = 1.0F;
    call.head_dim = problem.head_dim;
    call.dtype = problem.dtype;
    call.causal = problem.causal;
  }

  swr::AttentionProblem problem;
  swr::DeviceBuffer memory{64 * 256 * 2};
  swr::AttentionCall call;
};

int run(const char* exported) {
  const swr::PrimaryContext context(0);
  const swr::Stream stream;
  const swr::ExportedKernel kernel = swr::read_manifest(exported).kernels.at(0);
  Work work(kernel);
  swr::Runtime runtime({.exported = exported, .may_compile = false});
  const swr::Answer answer = runtime.prepare(work.problem);
  const swr::LaunchPlan plan =
      swr::launch_plan(work.problem, answer.variant, kernel.device.sm_count, kernel.ctas_per_sm);
  const swr::AttentionKernel bare(swr::read_cubin(exported, kernel), kernel.entry, plan);
  const auto through_runtime = [&] { runtime.attention(work.call, stream.handle()); };
  const auto directly = [&] { bare.launch(work.call.params, stream.handle()); };
  rounds_ns(stream, directly);
  const auto direct_ns = rounds_ns(stream, directly);
  const auto runtime_ns = rounds_ns(stream, through_runtime);
  print("cuLaunchKernel", direct_ns);
  print("Runtime::attention", runtime_ns);
  const std::size_t middle = direct_ns.size() / 2;
  std::printf("overhead           p50 %7.1f ns\n", runtime_ns[middle] - direct_ns[middle]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: dispatch_bench EXPORTED_DIRECTORY\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dispatch_bench: %s\n", error.what());
    return 1;
  }
}
