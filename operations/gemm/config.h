// SPDX-License-Identifier: MIT
// From the vocabulary of the host (GemmProblem, GemmVariant) to the kernels' compile-time
// configurations and launch parameters.
#pragma once

#include "templates/gemm/hopper/config.h"
#include "templates/gemm/portable/config.h"
#include <swr/gemm_params.h>
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <string>
#include <variant>

namespace swr {

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
