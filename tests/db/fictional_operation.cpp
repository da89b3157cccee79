// SPDX-License-Identifier: MIT
#include "tests/db/fictional_operation.h"

#include "core/field_builders.h"
#include "core/typed_operation.h"
#include <swr/attention_problem.h>
#include <swr/error.h>
#include <swr/gemm_problem.h>

#include <array>
#include <stdexcept>

namespace swr {
namespace own {
std::span<const Operation* const> operations();
}  // namespace own

namespace fictional {
namespace {

using namespace std::string_view_literals;

constexpr std::array kDirections{"forward"sv, "backward"sv};
constexpr std::array kRules{ConstraintInfo{"threads", "Whole warps."}};
constexpr std::array kSources{FamilySource{.family = Family::portable}};
constexpr Advice kAdvice{};
constexpr int kWarp = 32;

/// Of what is never asked of an operation without kernels.
[[noreturn]] void refuse() { throw std::logic_error("scan has no kernels"); }

std::span<const ProblemField> scan_fields() {
  using P = ScanProblem;
  static const std::array fields{
      size_field(&P::rows, "rows", "Rows", {.option = "rows", .usual = 1}),
      size_field(&P::columns, "columns", "Columns", {.option = "columns", .is_required = true}),
      choice_field(&P::dtype, kDTypes, "dtype", "Type", {.option = "dtype"}),
      later(flag_field(&P::exclusive, "exclusive", "Without the element itself",
                       {.option = "exclusive"})),
  };
  return fields;
}

std::span<const Axis> scan_axes() {
  using V = ScanVariant;
  static const std::array axes{
      choice_axis(&V::family, kFamilies, "family", "Kernel family."),
      integer_axis(&V::threads, kWarp, 1024, "threads", "Threads of a CTA."),
      choice_axis(&V::direction, kDirections, "group", "Where rows begin."),
      integer_axis(&V::items, 1, 64, "items", "Elements of a thread.", Family::hopper),
      later(switch_axis(&V::keeps_carry, "keeps_carry", "Sums stay in registers.")),
  };
  return axes;
}

}  // namespace

void validate(const ScanProblem& problem) {
  if (problem.rows < 1 || problem.columns < 1) {
    throw Error(ErrorCode::invalid_argument, "columns must be 1 or more");
  }
}
double flop_count(const ScanProblem& problem) { return 1.0 * problem.rows * problem.columns; }
CompulsoryBytes compulsory_bytes(const ScanProblem& problem) {
  const long long bytes = 2LL * problem.rows * problem.columns;
  return {.read = bytes, .write = bytes};
}
std::string to_string(const ScanProblem& problem) {
  return "scan " + std::to_string(problem.rows) + "x" + std::to_string(problem.columns);
}
std::string file_name_of(const ScanProblem& problem) { return to_string(problem); }
void enlarge_sizes(ScanProblem& problem) { problem.columns = 1 << 20; }

ScanVariant default_variant(const ScanProblem&, const DeviceInfo&) { return {}; }
std::optional<BrokenConstraint> broken_constraint(const ScanProblem& problem,
                                                  const ScanVariant& variant, const DeviceInfo&) {
  if (variant.threads <= problem.columns) {
    return std::nullopt;
  }
  return BrokenConstraint{kRules[0], "more threads than columns"};
}
std::vector<Variant> points_of(Family, const ScanProblem&, const DeviceInfo&, const SpaceOptions&) {
  refuse();
}
std::string config_header_of(const ScanProblem&, const ScanVariant&) { refuse(); }
int smem_bytes_of(const ScanProblem&, const ScanVariant&) { refuse(); }
int threads_of(const ScanProblem&, const ScanVariant& variant) { return variant.threads; }
int warps_of(const ScanVariant& variant) { return variant.threads / kWarp; }
LaunchGeometry geometry_of(const ScanProblem&, const ScanVariant&, int, int) { refuse(); }
std::string tile_text_of(const ScanVariant& variant) { return std::to_string(variant.threads); }
std::string description_of(const ScanVariant& variant) { return tile_text_of(variant); }
std::string description_without_order_of(const ScanVariant& variant) {
  return tile_text_of(variant);
}

namespace {

constexpr TypedParts<ScanProblem, ScanVariant> kParts{
    .text = to_string,
    .file_name = file_name_of,
    .description = description_of,
    .description_without_order = description_without_order_of};

class ScanOperation final : public TypedOperation<ScanProblem, ScanVariant> {
 public:
  ScanOperation() : TypedOperation(kParts) {}

  std::string_view name() const override { return "scan"; }
  std::string_view summary() const override { return "running sums along rows"; }
  std::string_view example() const override { return "--columns 4096"; }
  std::span<const ProblemField> fields() const override { return scan_fields(); }
  std::span<const Axis> axes() const override { return scan_axes(); }
  std::span<const ConstraintInfo> constraints() const override { return kRules; }
  std::span<const FamilySource> families() const override { return kSources; }
  const Axis* order_axis() const override { return nullptr; }
  const Advice& advice() const override { return kAdvice; }
  std::vector<VariantColumn> columns(std::span<const VariantResult>) const override { return {}; }

  std::unique_ptr<Workload> make_workload(const Problem&, const WorkloadTools&,
                                          unsigned long long) const override {
    refuse();
  }
  std::unique_ptr<ExplainedVariant> explain(const ExplainRequest&) const override { refuse(); }
};

}  // namespace

const Operation& scan_operation() {
  static const ScanOperation operation;
  return operation;
}
const Operation& ScanProblem::operation() { return scan_operation(); }
const Operation& ScanVariant::operation() { return scan_operation(); }

}  // namespace fictional

/// In the place of operations/CMakeLists.txt.
std::span<const Operation* const> own::operations() {
  static const std::array<const Operation*, 3> all{&attention_operation(), &gemm_operation(),
                                                   &fictional::scan_operation()};
  return all;
}

}  // namespace swr
