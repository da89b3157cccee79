// SPDX-License-Identifier: MIT
// A kernel of a user's as an operation: its sizes are the problem, its parameters the variant.
#pragma once

#include "core/package_text.h"
#include "kernel_spec/spec/kernel_plan.h"
#include "operations/workload.h"

#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

class UserKernel final : public Operation, public OperationServing, public OperationPackage {
 public:
  /// `file` is the spec's, for options that name it again; empty for a kernel that a database told
  /// of, which lacks data files.
  UserKernel(kernel_spec::KernelPlan plan, const std::filesystem::path& file);

  const kernel_spec::KernelPlan& plan() const { return described_.load()->plan; }
  /// Takes over the data files and the file of an equal spec, where those are missing. One thread
  /// at a time; others may use the kernel meanwhile.
  void complete(kernel_spec::KernelPlan plan, const std::filesystem::path& file) const;
  std::vector<int> sizes_of(const Problem& problem) const;
  /// The place of each parameter's value. Requires: values that the parameters have.
  std::vector<int> choice_of(const Variant& variant) const;
  /// Everything that expressions may name.
  void fill(kernel_spec::Point& point, const Problem& problem, const Variant& variant) const;
  /// Of a launch; 0 where the spec says none, or none that is a number for these sizes.
  double amount_of(const Problem& problem,
                   double (kernel_spec::KernelPlan::*amount)(const kernel_spec::Point&)
                       const) const;

  std::string_view name() const override { return name_; }
  std::string_view given_name() const override { return plan_.spec().name; }
  std::string_view summary() const override { return plan_.spec().summary; }
  std::string_view example() const override { return example_; }
  std::span<const ProblemField> fields() const override { return fields_; }
  std::span<const Axis> axes() const override { return axes_; }
  std::span<const ConstraintInfo> constraints() const override { return constraints_; }
  std::span<const FamilySource> families() const override { return {&family_, 1}; }

  Problem default_problem() const override;
  void validate(const Problem& problem) const override;
  double flop_count(const Problem& problem) const override;
  CompulsoryBytes compulsory_bytes(const Problem& problem) const override;
  std::string text(const Problem& problem) const override;
  std::string file_name(const Problem& problem) const override;
  void enlarge(Problem& problem) const override;

  Variant default_axes() const override;
  Variant default_variant(const Problem& problem, const DeviceInfo& device) const override;
  std::optional<BrokenConstraint> broken_constraint(const Problem& problem, const Variant& variant,
                                                    const DeviceInfo& device) const override;
  Points points(Family family, const Problem& problem, const DeviceInfo& device,
                const SpaceOptions& options) const override;
  int tolerated_spill_bytes(const Variant& /*variant*/) const override {
    return std::numeric_limits<int>::max();
  }
  std::optional<KernelProgram> program(const Problem& problem,
                                       const Variant& variant) const override;
  std::optional<KernelProgram> reference_program(const Problem& problem) const override;
  std::string source_digest() const override { return plan_.digest(); }
  std::string stored_text() const override { return plan_.text(); }
  std::string_view spec_file() const override { return described_.load()->file; }
  double longest_trial_s(const Problem& problem) const override;
  Variant without_launch_choices(const Variant& variant) const override;
  std::string config_header(const Problem& problem, const Variant& variant) const override;
  int smem_bytes(const Problem& problem, const Variant& variant) const override;
  int threads_per_cta(const Problem& problem, const Variant& variant) const override;
  int computing_warps(const Variant& variant) const override;
  LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant, int sm_count,
                                 int ctas_per_sm) const override;
  std::string tile_text(const Variant& variant) const override;
  std::unique_ptr<Workload> make_workload(const Problem& problem, const WorkloadTools& tools,
                                          unsigned long long seed) const override;
  const OperationServing* serving() const override { return this; }
  /// Its launches take a KernelCall (swr/kernel_call.h).
  std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                          int ctas_per_sm,
                                          const ServingTools& tools) const override;

  const OperationPackage* package() const override { return this; }
  const PackagePart& package_part() const override { return package_part_; }
  std::string package_row(const PackagedKernel& kernel) const override;

  /// The whole space of a problem, or the part of it that restrictions leave.
  kernel_spec::Space space(const Problem& problem, const SpaceOptions& options) const;
  Variant variant_of(std::span<const int> choice) const;

 private:
  /// A plan with the file that it came from.
  struct Described {
    kernel_spec::KernelPlan plan;
    std::string file;
  };

  void make_fields();
  void make_package_part();
  void make_axes();
  /// Every launch of the kernel; empty where one cannot be computed, with the reason.
  std::vector<kernel_spec::PlannedLaunch> launches(const Problem& problem,
                                                   const Variant& variant) const;
  std::optional<std::string> broken_limit(std::size_t& which, const Problem& problem,
                                          const Variant& variant, const DeviceInfo& device) const;

  std::unique_ptr<const Described> first_;
  const kernel_spec::KernelPlan& plan_;  ///< The first, which never goes.
  mutable std::unique_ptr<const Described> completed_;
  mutable std::atomic<const Described*> described_;
  std::string name_;
  std::string example_;
  FamilySource family_;
  std::string package_type_;
  PackagePart package_part_;
  std::vector<ProblemField> fields_;
  std::vector<Axis> axes_;
  /// The values of axes that have numbers; empty for the others.
  std::vector<std::vector<int>> numbers_;
  /// Of axes with values that are no numbers.
  std::deque<std::vector<std::string_view>> spellings_;
  std::deque<std::string> sentences_;
  std::vector<ConstraintInfo> constraints_;
};

std::unique_ptr<Workload> make_user_workload(const UserKernel& kernel, const Problem& problem,
                                             const WorkloadTools& tools, unsigned long long seed);

}  // namespace swr
