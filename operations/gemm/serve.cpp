// SPDX-License-Identifier: MIT
#include "operations/gemm/config.h"
#include "operations/gemm/gemm_launch.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>
#include <swr/runtime.h>

#include <cstddef>
#include <variant>

namespace swr {
namespace {

class ReadyGemm final : public ReadyLaunch {
 public:
  ReadyGemm(const GemmProblem& problem, const GemmVariant& variant, int ctas_per_sm,
            const ServingTools& tools)
      : config_(make_gemm_config(problem, variant)),
        variant_(variant),
        workers_(worker_count(variant, tools.device.sm_count, ctas_per_sm)),
        memory_(tools.split_memory) {}

  void launch(const void* of_gemm, const LaunchSite& site) const override {
    const auto& call = *static_cast<const GemmCall*>(of_gemm);
    GemmParams params = call.params;
    params.raster = variant_.raster;
    params.raster_group = variant_.raster_group;
    params.swizzle_stride = variant_.swizzle_stride;
    params.splits = variant_.splits;
    std::visit([&](const auto& config) { launch(config, params, call.extras, site); }, config_);
  }

 private:
  template <typename Config>
  void launch(const Config& config, GemmParams params, const GemmExtras& extras,
              const LaunchSite& site) const {
    if (const long long bytes = workspace_bytes(config, params); bytes > 0) {
      SplitMemory::Part part;
      require_success(
          memory_.of_launch(site.stream, static_cast<std::size_t>(bytes),
                            static_cast<std::size_t>(config.arrival_words(params)), part),
          "finding memory for partial sums and copied rows");
      params.partials = part.partials;
      params.arrivals = part.arrivals;
    }
    GemmTensorMaps maps{};  // Stays so for kernels without maps.
    require_success(encode_gemm_maps(site.calls, config, params, maps), "cuTensorMapEncodeTiled");
    require_success(launch_gemm(site.calls, site.entry(), config, params, extras, maps, workers_,
                                site.overlap, site.stream),
                    "cuLaunchKernelEx");
  }

  GemmFamilyConfig config_;
  GemmVariant variant_;
  int workers_;          ///< CTAs of a persistent launch.
  SplitMemory& memory_;  ///< Where splits of k meet, and rows are copied to.
};

}  // namespace

std::unique_ptr<ReadyLaunch> make_ready_gemm(const GemmProblem& problem, const GemmVariant& variant,
                                             int ctas_per_sm, const ServingTools& tools) {
  return std::make_unique<ReadyGemm>(problem, variant, ctas_per_sm, tools);
}

}  // namespace swr
