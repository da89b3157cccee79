// SPDX-License-Identifier: MIT
// GEMM in exported packages.
#include "operations/gemm/config.h"
#include "operations/gemm/parts.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <variant>

namespace swr {

/// Made by swr_embed_files.
std::span<const EmbeddedFile> gemm_package_templates();

constexpr auto members_of(const GemmProblem& /*of*/) {
  using C = GemmProblem;
  return all_members<C, &C::batch, &C::m, &C::n, &C::k, &C::dtype, &C::output, &C::layout,
                     &C::reads_c, &C::alignment_bytes, &C::scaling, &C::accuracy, &C::has_bias,
                     &C::activation, &C::gated, &C::output_scaling, &C::groups, &C::skewed>();
}

const PackagePart& gemm_package_part() {
  static constexpr PackagePart part{"gemm", "Gemm", gemm_package_templates};
  return part;
}

std::string gemm_package_row(const PackagedKernel& kernel) {
  const auto& problem = kernel.problem.as<GemmProblem>();
  const auto& variant = kernel.variant.as<GemmVariant>();
  const std::string config = std::visit(
      [](const auto& one) {
        return "swr::" + std::string(type_name<std::decay_t<decltype(one)>>()) + cpp_text(one);
      },
      make_gemm_config(problem, variant));
  return cpp_text(problem) + ",\n     " + config + ",\n     " + cpp_text(variant.raster) + ", " +
         std::to_string(variant.raster_group) + ", " + std::to_string(variant.swizzle_stride) +
         ", " + std::to_string(variant.splits) + ", " + std::to_string(variant.workers);
}

}  // namespace swr
