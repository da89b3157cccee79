// SPDX-License-Identifier: MIT
// GEMM in exported packages.
#include "operations/gemm/package.h"

#include "operations/gemm/config.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <variant>

namespace swr {

/// Made by swr_embed_files.
std::span<const EmbeddedFile> gemm_package_templates();

namespace {

/// Every member in its order, as of the following one.
std::string config_text(const HopperGemmConfig& c) {
  static_assert(sizeof(HopperGemmConfig) == 23 * sizeof(int), "a new member is to be written here");
  return "swr::HopperGemmConfig" + package_list({package_enumerator("DType", c.dtype),
                                                 package_enumerator("OutputType", c.output),
                                                 package_enumerator("GemmLayout", c.layout),
                                                 package_truth(c.reads_c),
                                                 std::to_string(c.tile_m),
                                                 std::to_string(c.tile_n),
                                                 std::to_string(c.tile_k),
                                                 std::to_string(c.stages),
                                                 package_enumerator("GemmMainloop", c.mainloop),
                                                 std::to_string(c.consumers),
                                                 std::to_string(c.cluster_m),
                                                 std::to_string(c.cluster_n),
                                                 std::to_string(c.cluster_k),
                                                 package_enumerator("Persistence", c.persistence),
                                                 package_enumerator("Order", c.k_order),
                                                 package_truth(c.split_k),
                                                 package_enumerator("Scaling", c.scaling),
                                                 std::to_string(c.promote_every),
                                                 package_truth(c.has_bias),
                                                 package_enumerator("Activation", c.activation),
                                                 package_truth(c.gated),
                                                 package_enumerator("Scaling", c.output_scaling),
                                                 package_enumerator("GemmGroups", c.groups)});
}

std::string config_text(const PortableGemmConfig& c) {
  static_assert(sizeof(PortableGemmConfig) == 21 * sizeof(int),
                "a new member is to be written here");
  return "swr::PortableGemmConfig" + package_list({package_enumerator("DType", c.dtype),
                                                   package_enumerator("OutputType", c.output),
                                                   package_enumerator("GemmLayout", c.layout),
                                                   package_truth(c.reads_c),
                                                   std::to_string(c.alignment_bytes),
                                                   std::to_string(c.tile_m),
                                                   std::to_string(c.tile_n),
                                                   std::to_string(c.tile_k),
                                                   std::to_string(c.warps_m),
                                                   std::to_string(c.warps_n),
                                                   std::to_string(c.stages),
                                                   package_enumerator("Persistence", c.persistence),
                                                   package_enumerator("Order", c.k_order),
                                                   package_truth(c.split_k),
                                                   package_enumerator("Scaling", c.scaling),
                                                   std::to_string(c.promote_every),
                                                   package_truth(c.has_bias),
                                                   package_enumerator("Activation", c.activation),
                                                   package_truth(c.gated),
                                                   package_enumerator("Scaling", c.output_scaling),
                                                   package_enumerator("GemmGroups", c.groups)});
}

std::string problem_text(const GemmProblem& p) {
  return package_list({std::to_string(p.batch), std::to_string(p.m), std::to_string(p.n),
                       std::to_string(p.k), package_enumerator("DType", p.dtype),
                       package_enumerator("OutputType", p.output),
                       package_enumerator("GemmLayout", p.layout), package_truth(p.reads_c),
                       std::to_string(p.alignment_bytes), package_enumerator("Scaling", p.scaling),
                       package_enumerator("Accuracy", p.accuracy), package_truth(p.has_bias),
                       package_enumerator("Activation", p.activation), package_truth(p.gated),
                       package_enumerator("Scaling", p.output_scaling),
                       package_enumerator("GemmGroups", p.groups), package_truth(p.skewed)});
}

}  // namespace

const PackagePart& gemm_package_part() {
  static constexpr PackagePart part{"gemm", "Gemm", gemm_package_templates};
  return part;
}

std::string gemm_package_row(const PackagedKernel& kernel) {
  const auto& problem = kernel.problem.as<GemmProblem>();
  const auto& variant = kernel.variant.as<GemmVariant>();
  const std::string config = std::visit([](const auto& one) { return config_text(one); },
                                        make_gemm_config(problem, variant));
  return problem_text(problem) + ",\n     " + config + ",\n     " +
         package_enumerator("Raster", variant.raster) + ", " +
         std::to_string(variant.raster_group) + ", " + std::to_string(variant.swizzle_stride) +
         ", " + std::to_string(variant.splits) + ", " + std::to_string(variant.workers);
}

}  // namespace swr
