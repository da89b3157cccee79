// SPDX-License-Identifier: MIT
// What Runtime::attention costs a thread beyond the bare driver call: both enqueue the same kernel,
// the bare call with arguments, tensor maps among them, that were made before. Once with the same
// tensors in every call, whose maps the runtime remembers, and once with tensors never seen before.
// Argument: a directory that swr-tune export wrote. Needs its GPU. experiments/runtime
// publishes the numbers.
#include "driver/cuda_driver.h"
#include "export/manifest.h"
#include "operations/attention/attention_launch.h"
#include "operations/attention/config.h"
#include <swr/attention_problem.h>
#include <swr/attention_variant.h>
#include <swr/runtime.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 2000;

/// Nanoseconds per call, round by round.
using Samples = std::vector<double>;

/// The calls take turns, so that what slows the host for a while slows all of them. A round is so
/// short that the launch queue holds it: no call waits for the GPU.
std::vector<Samples> take_turns(const swr::Stream& stream,
                                const std::vector<std::function<void()>>& calls) {
  constexpr int kCalls = 64;
  std::vector<Samples> samples(calls.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t which = 0; which < calls.size(); ++which) {
      stream.synchronize();
      const auto start = Clock::now();
      for (int i = 0; i < kCalls; ++i) {
        calls[which]();
      }
      const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
      samples[which].push_back(elapsed.count() / kCalls);
    }
  }
  return samples;
}

double percentile(Samples samples, int percent) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() * static_cast<std::size_t>(percent) / 100];
}

void print(const char* what, const Samples& samples) {
  std::printf("%-34s p50 %7.1f ns  p99 %7.1f ns\n", what, percentile(samples, 50),
              percentile(samples, 99));
}

/// Round by round.
Samples difference(const Samples& more, const Samples& less) {
  Samples result;
  for (std::size_t i = 0; i < more.size(); ++i) {
    result.push_back(more[i] - less[i]);
  }
  return result;
}

constexpr int kSeq = 64;
constexpr int kMostHeadDim = 256;
constexpr int kElementBytes = 2;
constexpr int kPlaces = 4096;  ///< Of a tensor in its buffer; far more than maps are remembered.
constexpr int kAlignment = 16;

/// Memory of a tensor whose heads all share one part of it, in any of kPlaces places.
class SharedByHeads {
 public:
  void* at(int place) const {
    return reinterpret_cast<void*>(buffer_.address() +
                                   static_cast<CUdeviceptr>(place) * kAlignment);
  }

 private:
  swr::DeviceBuffer buffer_{kSeq * kMostHeadDim * kElementBytes + kPlaces * kAlignment};
};

/// A short problem with the heads of an exported one, so that its kernels are legal. What is
/// computed does not matter here.
struct Work {
  explicit Work(const swr::AttentionProblem& exported) : problem(exported) {
    problem.seq_q = problem.seq_kv = kSeq;
    swr::AttentionParams& p = call.params;
    p.batch = problem.batch;
    p.heads_q = problem.heads_q;
    p.heads_kv = problem.heads_kv;
    p.seq_q = p.seq_kv = kSeq;
    p.q_strides = p.k_strides = p.v_strides = p.o_strides = {0, 0, problem.head_dim};
    p.scale_log2 = 1.0F;
    call.head_dim = problem.head_dim;
    call.dtype = problem.dtype;
    call.causal = problem.causal;
    move_to(0);
  }

  void move_to(int place) {
    call.params.q = q.at(place);
    call.params.k = k.at(place);
    call.params.v = v.at(place);
    call.params.o = o.at(place);
  }

  swr::AttentionProblem problem;
  SharedByHeads q;
  SharedByHeads k;
  SharedByHeads v;
  SharedByHeads o;
  swr::AttentionCall call;
};

/// A kernel with all that its launch takes.
class BareLaunch {
 public:
  BareLaunch(const std::vector<std::byte>& cubin, const swr::ExportedKernel& kernel,
             const swr::AttentionLaunchPlan& plan, swr::AttentionParams params)
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

  /// The same four maps by their former ones.
  void replace_addresses() const {
    for (const auto& [map, tensor] :
         {std::pair<const swr::TensorMap*, const void*>{&maps_.q, params_.q},
          {&maps_.k, params_.k},
          {&maps_.v, params_.v},
          {&maps_.o, params_.o}}) {
      auto replaced = std::bit_cast<CUtensorMap>(*map);
      replace_address_.result_of(&replaced, const_cast<void*>(tensor));
    }
  }

 private:
  swr::AttentionLaunchPlan plan_;
  mutable swr::AttentionParams params_;
  mutable swr::AttentionMaps maps_{};
  swr::LaunchOverlap overlap_;
  swr::LaunchGeometry geometry_;
  swr::DeviceBuffer counter_{2 * sizeof(unsigned)};
  swr::Kernel kernel_;
  swr::DriverCall<decltype(cuTensorMapReplaceAddress)> replace_address_{
      swr::cuda_driver().library, "cuTensorMapReplaceAddress"};
};

/// The exported kernel that an answer names.
const swr::ExportedKernel& kernel_of(const swr::Manifest& manifest, const swr::Answer& answer) {
  return manifest.kernels.at(static_cast<std::size_t>(answer.result_id - 1));
}

int run(const char* exported) {
  const swr::PrimaryContext context(0);
  const swr::Stream stream;
  const swr::Manifest manifest = swr::read_manifest(exported);
  Work work(manifest.kernels.at(0).problem.as<swr::AttentionProblem>());
  swr::Runtime runtime({.exported = exported, .may_compile = false});
  const swr::Answer answer = runtime.prepare(work.problem);
  const swr::ExportedKernel& kernel = kernel_of(manifest, answer);
  const swr::AttentionLaunchPlan plan =
      swr::launch_plan(work.problem, answer.variant.as<swr::AttentionVariant>(),
                       kernel.device.sm_count, kernel.ctas_per_sm);
  const BareLaunch bare(swr::read_cubin(exported, kernel), kernel, plan, work.call.params);
  int place = 0;
  const auto directly = [&] { bare.enqueue(stream); };
  const auto through_runtime = [&] {
    work.move_to(0);
    runtime.attention(work.call, stream.handle());
  };
  const auto with_unseen_tensors = [&] {
    place = (place + 1) % kPlaces;
    work.move_to(place);
    runtime.attention(work.call, stream.handle());
  };
  const auto encode_maps = [&] {
    if (plan.takes_tensor_maps()) {
      bare.encode_again();
    }
  };
  const auto replace_addresses = [&] {
    if (plan.takes_tensor_maps()) {
      bare.replace_addresses();
    }
  };
  const std::vector<Samples> samples = take_turns(
      stream, {directly, through_runtime, with_unseen_tensors, encode_maps, replace_addresses});
  std::printf("%s\n", swr::to_key(answer.variant).c_str());
  print("cuLaunchKernelEx", samples[0]);
  print("Runtime::attention", samples[1]);
  print("Runtime::attention, unseen tensors", samples[2]);
  print("encoding the tensor maps alone", samples[3]);
  print("replacing their addresses alone", samples[4]);
  print("overhead", difference(samples[1], samples[0]));
  print("overhead, unseen tensors", difference(samples[2], samples[0]));
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
