// SPDX-License-Identifier: MIT
// The kernels that the runtime has loaded into one context.
#pragma once

#include "core/gemm_config.h"
#include "db/problem_key.h"
#include "tuner/driver/cuda_driver.h"
#include "tuner/driver/split_memory.h"
#include "tuner/driver/tile_counters.h"
#include <swr/device.h>
#include <swr/generator.h>
#include <swr/lookup.h>
#include <swr/problem.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>

namespace swr {

struct ReadyAttention {
  AttentionLaunchPlan plan;
  /// Where the kernel's tiles are drawn; nullptr when it draws none.
  TileCounters* tile_counters = nullptr;
  /// Where splits of K and V meet; nullptr when there is one.
  SplitMemory* split_memory = nullptr;
};

struct ReadyGemm {
  GemmFamilyConfig config;
  GemmVariant variant;
  int workers = 1;  ///< CTAs of a persistent launch.
  /// Where splits of k meet; nullptr when there is one.
  SplitMemory* split_memory = nullptr;
};

/// All that a launch needs.
struct ReadyKernel {
  CUfunction function = nullptr;
  LaunchOverlap overlap = LaunchOverlap::none;
  std::variant<ReadyAttention, ReadyGemm> launch;  ///< In the order of Op.
  Answer answer;
};

struct ProblemHash {
  std::size_t operator()(const ProblemKey& problem) const { return hash_of(problem); }
};

/// One context. The owner guards it; functions that are handed out stay valid as long as it lives.
class LoadedKernels {
 public:
  /// The context must be current here, whenever a kernel is added, and exist until the end.
  explicit LoadedKernels(CUcontext context);
  /// Unloads the kernels; the thread's current context is what it was before.
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels&) = delete;
  LoadedKernels& operator=(const LoadedKernels&) = delete;

  CUcontext context() const { return context_; }
  const DeviceInfo& device() const { return device_; }

  /// What was chosen for a problem while `version` was in force; nullptr when nothing was.
  std::shared_ptr<const ReadyKernel> find(const ProblemKey& problem,
                                          unsigned long long version) const;

  /// Remembers a choice. Those of other versions are forgotten.
  void remember(const ProblemKey& problem, unsigned long long version,
                std::shared_ptr<const ReadyKernel> ready);

  /// The function of a kernel, loaded once per cubin, and what its launches need. Safe while a
  /// stream is being captured. Throws: Error{invalid_argument} when no CTA fits the device;
  /// DriverError.
  ReadyKernel load(const Problem& problem, const Answer& answer, const CompiledKernel& kernel);

 private:
  ReadyAttention ready(const AttentionProblem& problem, const AttentionVariant& variant,
                       int ctas_per_sm);
  ReadyGemm ready(const GemmProblem& problem, const GemmVariant& variant, int ctas_per_sm);

  CUcontext context_;
  DeviceInfo device_;
  unsigned long long version_ = 0;
  std::unordered_map<ProblemKey, std::shared_ptr<const ReadyKernel>, ProblemHash> ready_;
  std::map<std::string, Kernel> kernels_;  ///< By digest of the cubin.
  std::unique_ptr<TileCounters> tile_counters_ =
      std::make_unique<TileCounters>(cuda_driver().launch_calls);
  std::unique_ptr<SplitMemory> split_memory_ =
      std::make_unique<SplitMemory>(cuda_driver().launch_calls);
};

}  // namespace swr
