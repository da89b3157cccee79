// SPDX-License-Identifier: MIT
// An operation as one part: everything that the rest of swr needs to know of what kernels compute,
// behind one interface. operations/ has one folder per operation; docs/extending.md says how to add
// another.
#pragma once

#include <swr/constraints.h>
#include <swr/device.h>
#include <swr/kernel.h>
#include <swr/problem.h>
#include <swr/result.h>
#include <swr/search_space.h>
#include <swr/variant.h>

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

class Predictor;
class ReadyLaunch;
class Workload;
class ExplainedVariant;
struct ExplainRequest;
struct GpuProfile;
struct ModelWork;
struct PackagePart;
struct PackagedKernel;
struct ServingTools;
struct WorkloadTools;

/// Where the kernel of a family lies among the templates, and which chips run it.
struct FamilySource {
  Family family = Family::portable;
  std::string_view file;   ///< Path of the .cu file below the template root.
  std::string_view entry;  ///< Its extern "C" function.
  int first_arch = 0;      ///< Lowest architecture its instructions exist on.
  int last_arch = 0;       ///< Highest one.
  /// Lowest architecture on which kernels wait for the launch before them ahead of every access to
  /// global memory.
  int first_waiting_arch = 0;
  /// "a" when the instructions exist on one architecture alone (sm_90a), else empty.
  std::string_view arch_suffix;
  std::string_view config_header;  ///< Name by which the kernel includes its configuration.
  /// Its kernels waited already in exports that do not say so.
  bool always_waited = false;
  /// Further extern "C" functions of the file, where a call launches several kernels.
  std::span<const std::string_view> further_entries = {};

  /// CompiledKernel::may_overlap.
  bool may_overlap(int sm_arch) const { return sm_arch >= first_waiting_arch; }
};

/// A rule that a variant breaks.
struct BrokenConstraint {
  const ConstraintInfo& constraint;
  std::string reason;  ///< One sentence with the numbers.
};

/// A column that describes variants in the table of a tuning run.
struct VariantColumn {
  std::string title;
  bool is_number = false;  ///< Aligned to the right.
  std::function<std::string(const Variant&)> text;
};

/// Sectors missed over sectors demanded, by the size of an L2.
struct MissRatioCurve {
  double compulsory_ratio = 0.0;  ///< What no cache avoids.
  std::vector<double> ratios;     ///< By capacity.
};

/// What a person may turn to move a result, in the operation's own words.
struct Advice {
  std::string_view more_ctas = "smaller tiles make more CTAs";
  std::string_view fuller_waves = "try tiles that divide the work into even rounds";
  std::string_view hopper = "try other values of the family's axes";
  std::string_view portable = "try other tiles and --stages";
  std::string_view fewer_passes = "larger tiles need fewer passes";
  std::string_view fewer_misses = "try the other orders of the walk";
  std::string_view fuller_sectors = "rows that are multiples of 32 bytes fill sectors";
  std::string_view splits_option = {};  ///< Of the command line; empty without splits.
};

/// The source of kernels that are none of swr's templates.
struct KernelProgram {
  std::string file;  ///< As messages name it.
  std::string text;
  /// What it may include, by the names that its directives have.
  std::map<std::string, std::string> headers;
  /// Of the compiler, beside those that every kernel is compiled with.
  std::vector<std::string> options;
  /// What is launched, in the order of first launch, as C++ names it: "add<float, 128>".
  std::vector<std::string> kernels;
  /// Longest time of the compiler, in seconds, where it can be stopped (NVRTC 12.8 and later).
  double compile_limit_s = 60.0;
};

/// The points of a family.
struct Points {
  std::vector<Variant> listed;
  /// How many points of the product of all axis values are not listed, because there are too many
  /// to list, by the name of the constraint that they break.
  std::map<std::string, long long> left_out = {};
};

// What an operation may have besides: each a class that its operation is too, or hands out. What
// has a wrong name or a wrong signature does not build.

/// A model of its kernels.
class OperationModel {
 public:
  virtual std::unique_ptr<Predictor> make_predictor(const GpuProfile& profile) const = 0;
  /// By one walk in which no CTA waits for memory; empty where the model has no such walk.
  virtual std::optional<MissRatioCurve> miss_ratio_curve(
      const Problem& /*problem*/, const Variant& /*variant*/, int /*ctas_per_sm*/,
      const GpuProfile& /*profile*/, std::span<const long long> /*capacities_bytes*/) const {
    return std::nullopt;
  }

 protected:
  ~OperationModel() = default;
};

/// Launches by programs through swr::Runtime.
class OperationServing {
 public:
  /// Throws: Error{invalid_argument}; DriverError.
  virtual std::unique_ptr<ReadyLaunch> make_ready(const Problem& problem, const Variant& variant,
                                                  int ctas_per_sm,
                                                  const ServingTools& tools) const = 0;

 protected:
  ~OperationServing() = default;
};

/// Export as a C++ package.
class OperationPackage {
 public:
  /// What packages carry for it.
  virtual const PackagePart& package_part() const = 0;
  /// Problem and launch of one kernel, as C++ in the package's table.
  virtual std::string package_row(const PackagedKernel& kernel) const = 0;

 protected:
  ~OperationPackage() = default;
};

/// Immutable and safe from any thread. Problems and variants that are passed are of this operation.
/// What has a default is for operations that have more to say: operations/defaults.cpp.
class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // What is asked and what is chosen.
  virtual std::string_view name() const = 0;
  /// One line for --help.
  virtual std::string_view summary() const = 0;
  /// Options that ask for a problem, for --help.
  virtual std::string_view example() const = 0;
  virtual std::span<const ProblemField> fields() const = 0;
  virtual std::span<const Axis> axes() const = 0;
  virtual std::span<const ConstraintInfo> constraints() const = 0;
  virtual std::span<const FamilySource> families() const = 0;
  /// The axis that has the order in which a tile's inputs are walked; nullptr without one.
  virtual const Axis* order_axis() const { return nullptr; }

  // Problems.
  virtual Problem default_problem() const = 0;
  virtual void validate(const Problem& problem) const = 0;
  virtual double flop_count(const Problem& problem) const = 0;
  virtual CompulsoryBytes compulsory_bytes(const Problem& problem) const = 0;
  /// Its work is matrix products, so that the rate of tensor cores is its upper roof.
  virtual bool multiplies_matrices() const { return false; }
  /// Exponentials of one launch; 0 where there are none to speak of.
  virtual double exponential_count(const Problem& /*problem*/) const { return 0.0; }
  /// Defaults to the operation's name and what is not as usual, e.g. "scan rows4096 columns512
  /// fp16".
  virtual std::string text(const Problem& problem) const;
  /// A file name for the problem, without extension. Defaults to the same, with underscores.
  virtual std::string file_name(const Problem& problem) const;
  /// The index-th problem of another kind and equal sizes whose results serve nearly as well, such
  /// as that of the other 16-bit type; empty behind the last, of which there are three at most.
  virtual std::optional<Problem> near_kind(const Problem& /*problem*/, int /*index*/) const {
    return std::nullopt;
  }
  /// A problem whose sizes forbid no choice, for kernels that no problem was named for.
  virtual void enlarge(Problem& problem) const = 0;

  // Variants and their kernels.
  virtual Variant default_axes() const = 0;
  virtual Variant default_variant(const Problem& problem, const DeviceInfo& device) const = 0;
  /// A good variant from shape and device alone, in microseconds; legal for both. Empty, as by
  /// default, where no closed form chooses.
  virtual std::optional<Variant> modelled_variant(const Problem& /*problem*/,
                                                  const DeviceInfo& /*device*/) const {
    return std::nullopt;
  }
  /// About how long a legal variant takes, by the closed form that chooses; empty without one.
  virtual std::optional<double> quick_time_us(const Problem& /*problem*/,
                                              const Variant& /*variant*/,
                                              const DeviceInfo& /*device*/) const {
    return std::nullopt;
  }
  /// How many octaves off a stored shape may be for its winner to lose less than modelled_variant
  /// does; infinity, as by default, where no measurement says.
  virtual double trusted_octaves(const Problem& /*problem*/, const DeviceInfo& /*device*/) const {
    return std::numeric_limits<double>::infinity();
  }
  virtual std::optional<BrokenConstraint> broken_constraint(const Problem& problem,
                                                            const Variant& variant,
                                                            const DeviceInfo& device) const = 0;
  /// The points of a family, legal or not. Requires: restrictions name axes and values of theirs.
  virtual Points points(Family family, const Problem& problem, const DeviceInfo& device,
                        const SpaceOptions& options) const = 0;
  /// How far outside of the shapes that were measured results still answer, in octaves of any size
  /// (ShapePoint): nothing further out says that they are better than the default.
  virtual double octaves_beyond_hull() const { return std::numeric_limits<double>::infinity(); }
  /// Bytes of spilled registers that a thread may store and load, both together, in a kernel that
  /// is still worth measuring.
  virtual int tolerated_spill_bytes(const Variant& /*variant*/) const { return 0; }
  /// The kernels' own source; empty, as by default, where a family's template is the source.
  virtual std::optional<KernelProgram> program(const Problem& /*problem*/,
                                               const Variant& /*variant*/) const {
    return std::nullopt;
  }
  /// The source of the kernels that say what is right; empty, as by default, where none are the
  /// user's.
  virtual std::optional<KernelProgram> reference_program(const Problem& /*problem*/) const {
    return std::nullopt;
  }
  /// Digest of all that a kernel of a user's is made from; empty for operations of swr. Results of
  /// different digests answer no common question.
  virtual std::string source_digest() const { return ""; }
  /// From which restore_operation() makes the operation again, in any process; empty for operations
  /// of swr, which every process knows.
  virtual std::string stored_text() const { return ""; }
  /// What the user calls a kernel: the operation's name without what tells its versions apart.
  /// Defaults to the name.
  virtual std::string_view given_name() const { return name(); }
  /// The file that describes the operation, for options that name it again; empty where there is
  /// none.
  virtual std::string_view spec_file() const { return {}; }
  /// Longest time of one variant with all its launches, in seconds. Defaults to a minute for what
  /// does not depend on the problem, and its operations at 100 GFLOP/s.
  virtual double longest_trial_s(const Problem& problem) const;
  /// Defaults to the variant: every choice is compiled in.
  virtual Variant without_launch_choices(const Variant& variant) const { return variant; }
  /// Variants that are equal then differ in the order of their tiles alone.
  virtual Variant without_tile_order(const Variant& variant) const { return variant; }
  virtual std::string config_header(const Problem& problem, const Variant& variant) const = 0;
  virtual int smem_bytes(const Problem& problem, const Variant& variant) const = 0;
  virtual int threads_per_cta(const Problem& problem, const Variant& variant) const = 0;
  virtual int computing_warps(const Variant& variant) const = 0;
  virtual bool is_split(const Variant& /*variant*/) const { return false; }
  virtual LaunchGeometry launch_geometry(const Problem& problem, const Variant& variant,
                                         int sm_count, int ctas_per_sm) const = 0;

  // For people.
  /// Defaults to a column per axis.
  virtual std::vector<VariantColumn> columns(std::span<const VariantResult> results) const;
  /// Tile sizes in short, e.g. "64x64x4".
  virtual std::string tile_text(const Variant& variant) const = 0;
  /// Every choice in short. Defaults to the values of the axes, integers with their names.
  virtual std::string description(const Variant& variant) const;
  /// The same without the order, for pairs that differ in it.
  virtual std::string description_without_order(const Variant& variant) const;
  virtual const Advice& advice() const;
  /// What several GPUs of one run measure to be compared: long enough to load any of them fully,
  /// short enough to take a second or two with verification. Empty where other operations serve.
  virtual std::optional<Problem> reference_problem() const { return std::nullopt; }
  /// The problems that a published model's configuration (config.json) poses; none where it says
  /// nothing of the operation. Throws: Error{invalid_argument} naming the field.
  virtual std::vector<Problem> problems_of_model(const nlohmann::ordered_json& /*config*/,
                                                 const ModelWork& /*work*/) const {
    return {};
  }
  /// What lessens conflicts between banks of shared memory.
  virtual std::string conflict_advice(const Variant& variant) const;

  // Measuring and explaining.
  /// Throws: DriverError, also when the device is out of memory. The tools must outlive it.
  virtual std::unique_ptr<Workload> make_workload(const Problem& problem,
                                                  const WorkloadTools& tools,
                                                  unsigned long long seed) const = 0;
  /// Defaults to what is known of any kernel: launch, time, traffic, roofline.
  /// Requires: a model. Throws: Error{invalid_argument} when no CTA fits an SM.
  virtual std::unique_ptr<ExplainedVariant> explain(const ExplainRequest& request) const;

  // Parts that not every operation has; nullptr, as by default, without.
  virtual const OperationModel* model() const { return nullptr; }
  virtual const OperationServing* serving() const { return nullptr; }
  virtual const OperationPackage* package() const { return nullptr; }
};

/// The most of a process: keys of problems have eight bits for the place.
inline constexpr std::size_t kMostOperations = 255;

/// Adds an operation for as long as the process lives. Safe from any thread.
/// Throws: Error{invalid_argument} when an operation has that name already, or there are too many.
const Operation& register_operation(std::unique_ptr<const Operation> operation);

/// The kernel whose stored_text() this is; added unless the process knows it. nullptr where the
/// process has no room for another. Compiles and runs nothing. Safe from any thread.
/// Throws: Error{invalid_argument} for a text that is of no kernel, or of one of another name or
/// digest.
const Operation* restore_operation(std::string_view name, std::string_view digest,
                                   std::string_view stored_text);

/// Without kernels of users.
std::vector<const Operation*> operations_of_swr();

/// Requires: a family of the operation.
const FamilySource& family_source(const Operation& operation, Family family);
inline const FamilySource& family_source(const Variant& variant) {
  return family_source(variant.operation(), family_of(variant));
}

/// Of its model; nullptr without one.
std::unique_ptr<Predictor> make_predictor(const Operation& operation, const GpuProfile& profile);

/// The axis of that name. Requires: the operation has it.
const Axis& axis_named(const Operation& operation, std::string_view name);

/// Throws: Error{invalid_argument} when they are of different operations.
void require_same_operation(const Problem& problem, const Variant& variant);

}  // namespace swr
