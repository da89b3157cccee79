// SPDX-License-Identifier: MIT
// The kernels that the runtime has loaded into one context.
#pragma once

#include "db/problem_key.h"
#include "driver/ready_launch.h"
#include "runtime/kernel_source.h"
#include <swr/device.h>
#include <swr/generator.h>
#include <swr/kernel.h>
#include <swr/lookup.h>
#include <swr/problem.h>

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace swr {

class LoadedFixedKernels final : public FixedKernels {
 public:
  /// The source must outlive it, and the context must be current in every call.
  LoadedFixedKernels(KernelSource& source, int sm_arch) : source_(source), sm_arch_(sm_arch) {}

  /// Safe while a stream is being captured.
  CUfunction function(const char* file, const char* entry) override;

 private:
  KernelSource& source_;
  int sm_arch_;
  std::mutex mutex_;
  std::map<std::string, Kernel> kernels_;  ///< By entry.
};

/// All that a launch needs.
struct ReadyKernel {
  std::span<const CUfunction> functions;  ///< Of the cubin, which stays loaded: the entry first.
  LaunchOverlap overlap = LaunchOverlap::none;
  std::unique_ptr<ReadyLaunch> launch = nullptr;
  Answer answer;
};

struct ProblemHash {
  std::size_t operator()(const ProblemKey& problem) const { return hash_of(problem); }
};

/// One context. The owner guards it; functions that are handed out stay valid as long as it lives.
class LoadedKernels {
 public:
  /// The context must be current here, whenever a kernel is added, and exist until the end. The
  /// source must outlive it.
  LoadedKernels(CUcontext context, KernelSource& source);
  /// Unloads the kernels; the thread's current context is what it was before.
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels&) = delete;
  LoadedKernels& operator=(const LoadedKernels&) = delete;

  CUcontext context() const { return context_; }
  const DeviceInfo& device() const { return device_; }
  FixedKernels& fixed_kernels() const { return *fixed_kernels_; }

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
  struct LoadedKernel {
    void allow(std::span<const int> wanted_bytes);

    Kernel kernel;
    std::vector<int> allowed_bytes;  ///< Dynamic shared memory, by entry.
  };

  CUcontext context_;
  DeviceInfo device_;
  unsigned long long version_ = 0;
  std::unordered_map<ProblemKey, std::shared_ptr<const ReadyKernel>, ProblemHash> ready_;
  std::map<std::string, LoadedKernel> kernels_;  ///< By digest of the cubin.
  std::unique_ptr<TileCounters> tile_counters_ =
      std::make_unique<TileCounters>(cuda_driver().launch_calls);
  std::unique_ptr<SplitMemory> split_memory_ =
      std::make_unique<SplitMemory>(cuda_driver().launch_calls);
  std::unique_ptr<LoadedFixedKernels> fixed_kernels_;
};

// Tensor maps of the launches that a thread made last. The driver takes 65 to 125 ns to encode one
// and some launches take four; a program that serves calls with the same few hundred
// tensors again and again, and others often have the shape and strides of one before.

/// From now on encode_recent_tensor_map() on this thread answers for this context.
void use_recent_tensor_maps_of(CUcontext context);

/// As cuTensorMapEncodeTiled, with its parameters and results; what this thread encoded before with
/// the same arguments and for the same context is taken from memory (512 maps per thread, a newer
/// one takes the place of an older; failures are not kept), and what differs by the address alone
/// is made by replacing that. Thread-safe: threads share nothing.
/// Requires: use_recent_tensor_maps_of() was called on this thread.
CUresult encode_recent_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                  void* address, const cuuint64_t* sizes,
                                  const cuuint64_t* strides_bytes, const cuuint32_t* box_sizes,
                                  const cuuint32_t* element_strides,
                                  CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

}  // namespace swr
