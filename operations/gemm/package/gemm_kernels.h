// SPDX-License-Identifier: MIT
// The table of embedded GEMM kernels.
#pragma once

#include "export/package/embedded.h"
#include "operations/gemm/gemm_fit.h"
#include "templates/gemm/hopper/config.h"
#include "templates/gemm/portable/config.h"
#include <swr/axes.h>
#include <swr/gemm_axes.h>
#include <swr/gemm_params.h>

#include <compare>
#include <cstddef>
#include <string>
#include <tuple>
#include <variant>

namespace swr_package {

/// What is asked, or what a kernel was tuned for.
struct GemmProblem {
  int batch = 1;
  int m = 1;
  int n = 1;
  int k = 1;
  swr::DType dtype = swr::DType::bf16;
  swr::OutputType output = swr::OutputType::bf16;
  swr::GemmLayout layout = swr::GemmLayout::nt;
  bool reads_c = false;
  int alignment_bytes = 16;
  swr::Scaling scaling = swr::Scaling::none;
  swr::Accuracy accuracy = swr::Accuracy::fast;
  bool has_bias = false;
  swr::Activation activation = swr::Activation::none;
  bool gated = false;
  swr::Scaling output_scaling = swr::Scaling::none;
  swr::GemmGroups groups = swr::GemmGroups::none;
  bool skewed = false;

  auto operator<=>(const GemmProblem&) const = default;

  auto kind() const {
    return std::tuple(dtype, output, layout, reads_c, alignment_bytes, scaling, accuracy, has_bias,
                      activation, gated, output_scaling, groups, skewed);
  }
  Sizes sizes() const { return {batch, m, n, k, 1}; }
  int output_bytes() const { return swr::output_bytes(output); }
  std::string describe() const {
    constexpr const char* kLayouts[] = {"nt", "nn", "tn"};
    constexpr const char* kOutputs[] = {"fp16", "bf16", "fp32", "fp8"};
    constexpr const char* kTypes[] = {", fp16 ", ", bf16 ", ", e4m3 ", ", e5m2 "};
    constexpr const char* kScalings[] = {"", ", tensor scales", ", row scales", ", block scales"};
    constexpr const char* kActivations[] = {"", ", gelu", ", gelu_tanh", ", silu"};
    return "batch " + text(batch) + ", m " + text(m) + ", n " + text(n) + ", k " + text(k) +
           kTypes[static_cast<int>(dtype)] + kLayouts[static_cast<int>(layout)] + " " +
           kOutputs[static_cast<int>(output)] + (reads_c ? ", beta" : "") +
           kScalings[static_cast<int>(scaling)] +
           (accuracy == swr::Accuracy::two_level ? ", two-level sums" : "") +
           (has_bias ? ", bias" : "") + kActivations[static_cast<int>(activation)] +
           (gated ? ", gated" : "") + (output_scaling == swr::Scaling::block ? ", scaled C" : "") +
           ", alignment " + text(alignment_bytes) +
           (groups == swr::GemmGroups::none ? "" : ", grouped") + (skewed ? ", skewed" : "");
  }
};

struct GemmKernel {
  EmbeddedKernel embedded;
  GemmProblem problem;
  std::variant<swr::PortableGemmConfig, swr::HopperGemmConfig> config;
  swr::Raster raster;
  int raster_group;
  int swizzle_stride;
  int splits;
  int workers;  ///< CTAs of a persistent launch; 0 fills the device.

  /// With what the kernel chooses at launch.
  swr::GemmParams chosen(swr::GemmParams params) const {
    params.raster = raster;
    params.raster_group = raster_group;
    params.swizzle_stride = swizzle_stride;
    params.splits = splits;
    return params;
  }

  bool fits(const GemmProblem& asked, int smem_per_cta_bytes) const {
    swr::GemmParams params;
    params.m = asked.m;
    params.n = asked.n;
    params.k = asked.k;
    params.batch = asked.batch;
    const auto* const hopper = std::get_if<swr::HopperGemmConfig>(&config);
    const int row_bytes =
        swr::row_alignment_bytes(asked.n, asked.output_bytes(), asked.alignment_bytes);
    return (hopper == nullptr || row_bytes >= hopper->alignment_bytes) &&
           std::visit(
               [&](const auto& one) {
                 return one.smem_bytes() <= smem_per_cta_bytes &&
                        swr::is_legal(one.schedule(chosen(params)));
               },
               config);
  }
};

extern const GemmKernel kGemmKernels[];
extern const std::size_t kGemmKernelCount;

}  // namespace swr_package
