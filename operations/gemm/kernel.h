// SPDX-License-Identifier: MIT
// A GEMM kernel of a loaded cubin, ready to be launched.
#pragma once

#include "driver/cuda_driver.h"
#include "operations/gemm/gemm_launch.h"
#include <swr/kernel.h>

#include <memory>
#include <optional>
#include <variant>

namespace swr {

class GemmKernel {
 public:
  using Config = std::variant<PortableGemmConfig, HopperGemmConfig>;

  /// `workers` counts the CTAs of a persistent launch.
  /// Throws: DriverError when the cubin does not fit the device or lacks the entry.
  GemmKernel(const CompiledKernel& kernel, const Config& config, int workers);
  /// Of a kernel that others may launch too.
  GemmKernel(std::shared_ptr<const Kernel> kernel, const Config& config, int workers);

  /// Enqueues one launch, which overlaps the one before where the kernel may. Consecutive launches
  /// on the same matrices share their tensor maps.
  /// Throws: DriverError, also for matrices whose alignment the copy engine refuses.
  void launch(const GemmParams& params, CUstream stream,
              LaunchOverlap overlap = LaunchOverlap::allowed, const GemmExtras& extras = {});

  CUfunction handle() const { return kernel_->handle(); }
  void set_workers(int workers) { workers_ = workers; }

 private:
  void encode_maps(const GemmParams& params);

  std::shared_ptr<const Kernel> kernel_;
  Config config_;
  int workers_;
  GemmTensorMaps maps_{};
  std::optional<GemmParams> mapped_;  ///< What `maps_` describes.
};

}  // namespace swr
