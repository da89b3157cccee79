// SPDX-License-Identifier: MIT
// What Runtime::attention costs a thread beyond the bare driver call: both enqueue the same kernel,
// the bare call with arguments, tensor maps among them, that were made before.
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

/// A short problem with the heads of an exported one, so that its kernels are legal. All heads
/// share one small buffer: what is computed does not matter here.
struct Work {
  explicit Work(const swr::AttentionProblem& exported) : problem(exported) {
    constexpr int kSeq = 64;
    problem.seq_q = problem.seq_kv = kSeq;
    swr::AttentionParams& p = call.params;
    p.q = p.k = p.v = reinterpret_cast<const void*>(inputs.address());
    p.o = reinterpret_cast<void*>(output.address());
    p.batch = problem.batch;
    p.heads_q = problem.heads_q;
    p.heads_kv = problem.heads_kv;
    p.seq_q = p.seq_kv = kSeq;
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = {0, 0, problem.head_dim};
    p.scale_log2 = 1.0F;
    call.head_dim = problem.head_dim;
    call.dtype = problem.dtype;
    call.causal = problem.causal;
  }

  swr::AttentionProblem problem;
  swr::DeviceBuffer inputs{64 * 256 * 2};
  swr::DeviceBuffer output{64 * 256 * 2};
  swr::AttentionCall call;
};

/// A kernel with all that its launch takes.
class BareLaunch {
 public:
  BareLaunch(const std::vector<std::byte>& cubin, const swr::ExportedKernel& kernel,
             const swr::LaunchPlan& plan, swr::AttentionParams params)
      : plan_(plan),
        params_(params),
        overlap_(swr::overlap_where(kernel.may_overlap)),
        kernel_(cubin, kernel.entry) {
    geometry_ = swr::launch_geometry(plan, params);
    params_.section_heads = geometry_.section_heads;
    params_.tile_counter = reinterpret_cast<unsigned*>(counter_.address());
    counter_.fill(0, swr::Stream());
    kernel_.allow_dynamic_smem(plan.dynamic_smem_bytes);
    if (plan.takes_tensor_maps()) {
      encode_again();
    }
  }

  void enqueue(const swr::Stream& stream) const {
    swr::MappedAttentionParams mapped{params_, maps_.k, maps_.v};
    void* arguments[] = {&mapped, &maps_.q, &maps_.k, &maps_.v, &maps_.o};
    swr::launch_grid(swr::cuda_driver().launch_calls, kernel_.handle(),
                     {.ctas = geometry_.grid_x,
                      .threads = geometry_.block_x,
                      .dynamic_smem_bytes = geometry_.dynamic_smem_bytes},
                     overlap_, stream.handle(), arguments);
  }

  void encode_again() const {
    swr::encode_attention_maps(swr::cuda_driver().launch_calls, plan_, params_, maps_);
  }

 private:
  swr::LaunchPlan plan_;
  mutable swr::AttentionParams params_;
  mutable swr::AttentionMaps maps_{};
  swr::LaunchOverlap overlap_;
  swr::LaunchGeometry geometry_;
  swr::DeviceBuffer counter_{2 * sizeof(unsigned)};
  swr::Kernel kernel_;
};

/// The exported kernel that an answer names.
const swr::ExportedKernel& kernel_of(const swr::Manifest& manifest, const swr::Answer& answer) {
  return manifest.kernels.at(static_cast<std::size_t>(answer.result_id - 1));
}

int run(const char* exported) {
  const swr::PrimaryContext context(0);
  const swr::Stream stream;
  const swr::Manifest manifest = swr::read_manifest(exported);
  const Work work(std::get<swr::AttentionProblem>(manifest.kernels.at(0).problem));
  swr::Runtime runtime({.exported = exported, .may_compile = false});
  const swr::Answer answer = runtime.prepare(work.problem);
  const swr::ExportedKernel& kernel = kernel_of(manifest, answer);
  const swr::LaunchPlan plan =
      swr::launch_plan(work.problem, std::get<swr::AttentionVariant>(answer.variant),
                       kernel.device.sm_count, kernel.ctas_per_sm);
  const BareLaunch bare(swr::read_cubin(exported, kernel), kernel, plan, work.call.params);
  const auto through_runtime = [&] { runtime.attention(work.call, stream.handle()); };
  const auto directly = [&] { bare.enqueue(stream); };
  rounds_ns(stream, directly);
  const auto direct_ns = rounds_ns(stream, directly);
  const auto runtime_ns = rounds_ns(stream, through_runtime);
  std::printf("%s\n", swr::to_key(answer.variant).c_str());
  print("cuLaunchKernelEx", direct_ns);
  print("Runtime::attention", runtime_ns);
  if (plan.takes_tensor_maps()) {
    print("of it, tensor maps", rounds_ns(stream, [&] { bare.encode_again(); }));
  }
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
