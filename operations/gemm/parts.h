// SPDX-License-Identifier: MIT
// The parts of GEMM from which operation.cpp makes the operation; core/operation.h says what
// each is for.
#pragma once

#include "core/json.h"
#include "core/make_problems.h"
#include "core/operation.h"
#include "core/package_text.h"
#include "driver/ready_launch.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "report/explain/explanation.h"
#include <swr/gemm_problem.h>
#include <swr/gemm_variant.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr {

// problem.cpp
std::span<const ProblemField> gemm_fields();
std::string file_name_of(const GemmProblem& problem);
void enlarge_sizes(GemmProblem& problem);

// variant.cpp
std::span<const Axis> gemm_axes();
GemmVariant kernel_choices(GemmVariant variant);
GemmVariant in_usual_tile_order(GemmVariant variant);
int warps_of(const GemmVariant& variant);
bool has_splits(const GemmVariant& variant);

// constraints.cpp
std::span<const ConstraintInfo> gemm_constraints();
std::optional<BrokenConstraint> broken_constraint(const GemmProblem& problem,
                                                  const GemmVariant& variant,
                                                  const DeviceInfo& device);
GemmVariant default_variant(const GemmProblem& problem, const DeviceInfo& device);

// quick_choice.cpp
double trusted_octaves_of(const GemmProblem& problem, const DeviceInfo& device);
double quick_time_us_of(const GemmProblem& problem, const GemmVariant& variant,
                        const DeviceInfo& device);
GemmVariant modelled_variant_of(const GemmProblem& problem, const DeviceInfo& device);
std::optional<GemmProblem> near_kind_of(GemmProblem problem, int index);

/// From asking for a k-block to its arrival, of a CTA whose other stages are under way, too.
inline constexpr double kLoadLatencyUs = 0.8;
/// Of the GPU's places, those that clusters of a variant find: a GPC holds whole clusters.
double places_share(const GemmVariant& variant);

/// What lines of A and of B cost the copy engine and L2 against lines that start where L2's do, by
/// the pitch of packed rows.
struct LineCosts {
  double a = 1.0;
  double b = 1.0;
};
LineCosts line_costs_of(const GemmProblem& problem, Family family);
/// Copying A and B to whole lines before the product by so many CTAs, where the family does;
/// `gb_per_s` is what memory gives.
double row_copies_us(const GemmProblem& problem, const GemmVariant& variant, int ctas,
                     double gb_per_s);

/// Clocks of a k-block whose rows are no whole 16 bytes, in the portable family: the SM's units for
/// loads beyond those of whole rows, and the wait for loads to registers, where addresses are even
/// and no more.
struct OddLoads {
  double issue_clocks = 0.0;
  double wait_clocks = 0.0;
};
OddLoads odd_loads_of(const GemmProblem& problem, const GemmVariant& variant);
/// How many CTAs of an SM splits of k may give work to.
int ctas_to_fill(const GemmProblem& problem, Family family);
/// What threads that store odd rows of a tile of C cost beyond its epilogue.
double odd_store_clocks(const GemmProblem& problem, const GemmVariant& variant);
long long a_row_bytes(const GemmProblem& problem);
long long b_row_bytes(const GemmProblem& problem);

// space.cpp
/// Widths in steps of 8 up to `widest` with the fewest columns of products for an SM: the two best
/// of the narrowest ones that take one round of tiles, two, and so on.
std::vector<int> fitted_widths(const GemmProblem& problem, const DeviceInfo& device, int tile_m,
                               int widest);
std::vector<Variant> points_of(Family family, const GemmProblem& problem, const DeviceInfo& device,
                               const SpaceOptions& options);

// config.cpp
std::string config_header_of(const GemmProblem& problem, const GemmVariant& variant);
int smem_bytes_of(const GemmProblem& problem, const GemmVariant& variant);
int threads_of(const GemmProblem& problem, const GemmVariant& variant);
LaunchGeometry geometry_of(const GemmProblem& problem, const GemmVariant& variant, int sm_count,
                           int ctas_per_sm);

// report.cpp
std::string tile_text_of(const GemmVariant& variant);
std::string form_text(const GemmVariant& variant);
std::string persistence_text(const GemmVariant& variant);
std::string raster_text(const GemmVariant& variant);
std::string description_of(const GemmVariant& variant);
std::string description_without_order_of(const GemmVariant& variant);
std::string conflict_advice_of(const GemmVariant& variant);
const Advice& gemm_advice();

const PackagePart& gemm_package_part();
/// Problem and launch of a kernel, as C++ of the package's table.
std::string gemm_package_row(const PackagedKernel& kernel);

/// Its launches take a GemmCall. Throws: DriverError.
std::unique_ptr<ReadyLaunch> make_ready_gemm(const GemmProblem& problem, const GemmVariant& variant,
                                             int ctas_per_sm, const ServingTools& tools);

// model_problems.cpp
/// Operation::problems_of_model(): the projections, for each length and batch and for decoding.
std::vector<Problem> gemm_problems_of_model(const Json& config, const ModelWork& work);

std::unique_ptr<Predictor> make_gemm_predictor(const GpuProfile& profile);

/// As Predictor::estimated_resources().
KernelResources estimated_resources(const GemmProblem& problem, const GemmVariant& variant);

/// What the model says where no requests meet and nothing is fetched again, without a walk;
/// infinity where no CTA fits an SM.
double unwalked_time_us(const GemmProblem& problem, const GemmVariant& variant,
                        const GpuProfile& profile);

// explained.cpp
/// Throws: Error{invalid_argument} when no CTA fits an SM.
std::unique_ptr<ExplainedVariant> explain_gemm(const ExplainRequest& request);

}  // namespace swr
