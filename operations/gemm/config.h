// SPDX-License-Identifier: MIT
// From the vocabulary of the host (GemmProblem, GemmVariant) to the kernels' compile-time
// configurations and launch parameters.
#pragma once

#include "core/members.h"
#include "templates/gemm/hopper/config.h"
#include "templates/gemm/portable/config.h"
#include <swr/gemm_params.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <string>
#include <variant>

namespace swr {

// What the generated header and the rows of packages list.
constexpr auto members_of(const HopperGemmConfig& /*of*/) {
  using C = HopperGemmConfig;
  return all_members<C, &C::dtype, &C::output, &C::layout, &C::reads_c, &C::tile_m, &C::tile_n,
                     &C::tile_k, &C::stages, &C::mainloop, &C::consumers, &C::cluster_m,
                     &C::cluster_n, &C::cluster_k, &C::persistence, &C::k_order, &C::split_k,
                     &C::scaling, &C::promote_every, &C::has_bias, &C::activation, &C::gated,
                     &C::output_scaling, &C::groups, &C::alignment_bytes>();
}
constexpr auto members_of(const PortableGemmConfig& /*of*/) {
  using C = PortableGemmConfig;
  return all_members<C, &C::dtype, &C::output, &C::layout, &C::reads_c, &C::alignment_bytes,
                     &C::tile_m, &C::tile_n, &C::tile_k, &C::warps_m, &C::warps_n, &C::stages,
                     &C::persistence, &C::k_order, &C::split_k, &C::scaling, &C::promote_every,
                     &C::has_bias, &C::activation, &C::gated, &C::output_scaling, &C::groups>();
}

/// The axes of the variant are taken as they are, whatever its family.
HopperGemmConfig make_hopper_gemm_config(const GemmProblem& problem, const GemmVariant& variant);
PortableGemmConfig make_portable_gemm_config(const GemmProblem& problem,
                                             const GemmVariant& variant);

constexpr Family family_of(const HopperGemmConfig& /*config*/) { return Family::hopper; }
constexpr Family family_of(const PortableGemmConfig& /*config*/) { return Family::portable; }

// The header that defines swr::kConfig.
std::string config_header(const HopperGemmConfig& config);
std::string config_header(const PortableGemmConfig& config);

/// The configuration of a variant's own family.
using GemmFamilyConfig = std::variant<PortableGemmConfig, HopperGemmConfig>;
GemmFamilyConfig make_gemm_config(const GemmProblem& problem, const GemmVariant& variant);

/// The sizes of the problem and the choices made at launch; pointers and strides are the caller's.
GemmParams make_gemm_params(const GemmProblem& problem, const GemmVariant& variant);

/// CTAs of a persistent launch.
int worker_count(const GemmVariant& variant, int sm_count, int ctas_per_sm);

}  // namespace swr
