// SPDX-License-Identifier: MIT
// A GEMM kernel of a loaded cubin, ready to be launched.
#pragma once

#include "tuner/driver/cuda_driver.h"
#include "tuner/driver/gemm_launch.h"

#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace swr {

/// The driver's functions, found at the first call. Throws: Error{no_driver}, also for one before
/// CUDA 11.8, which cannot launch clusters.
const GemmLaunchCalls& gemm_launch_calls();

class GemmKernel {
 public:
  using Config = std::variant<PortableGemmConfig, HopperGemmConfig>;

  /// `workers` counts the CTAs of a persistent launch.
  /// Throws: DriverError when the cubin does not fit the device or lacks the entry.
  GemmKernel(std::span<const std::byte> cubin, const std::string& entry, const Config& config,
             int workers);
  /// Of a kernel that others may launch too.
  GemmKernel(std::shared_ptr<const Kernel> kernel, const Config& config, int workers);

  /// Enqueues one launch. Consecutive launches on the same matrices share their tensor maps.
  /// Throws: DriverError, also for matrices whose alignment the copy engine refuses.
  void launch(const GemmParams& params, CUstream stream,
              LaunchOverlap overlap = LaunchOverlap::allowed);

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
