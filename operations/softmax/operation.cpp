// SPDX-License-Identifier: MIT
// Softmax as an operation.
#include "core/constraint_rules.h"
#include "core/field_builders.h"
#include "generator/config_text.h"
#include "generator/expansion.h"
#include "model/streaming_predictor.h"
#include "operations/plain_operation.h"
#include "operations/softmax/tensors.h"
#include <swr/error.h>

#include <bit>
#include <limits>

namespace swr {

/// Made by swr_embed_files.
std::span<const EmbeddedFile> softmax_package_templates();

namespace {

constexpr int kNoArch = std::numeric_limits<int>::max();
constexpr std::array kSource{FamilySource{.family = Family::portable,
                                          .file = "softmax/softmax.cu",
                                          .entry = "swr_softmax",
                                          .first_arch = 80,
                                          .last_arch = kNoArch,
                                          .first_waiting_arch = kNoArch,
                                          .arch_suffix = "",
                                          .config_header = "selected_softmax_config.h"}};
constexpr auto kOneFamily = std::span(kFamilies).first<1>();
constexpr auto kTwoOrders = std::span(kOrders).first<2>();
constexpr auto kTwoPersistences = std::span(kPersistences).first<2>();
constexpr int kMostHeldElements = 64;  ///< Of a thread, in fp32 registers.

}  // namespace

SoftmaxConfig config_of(const SoftmaxProblem& problem, const SoftmaxVariant& v) {
  return {problem.dtype, v.tile_rows, v.threads_per_row, v.vector,
          v.held,        v.stages,    v.order,           v.persistence};
}

constexpr auto members_of(const SoftmaxConfig& /*of*/) {
  using C = SoftmaxConfig;
  return all_members<C, &C::dtype, &C::tile_rows, &C::threads_per_row, &C::vector, &C::held,
                     &C::stages, &C::order, &C::persistence>();
}

std::string config_header_of(const SoftmaxProblem& problem, const SoftmaxVariant& variant) {
  return config_header("softmax/config.h", "SoftmaxConfig",
                       "    " + listed_members(config_of(problem, variant)) + "\n");
}

namespace {

struct Candidate {
  const SoftmaxProblem& problem;
  const SoftmaxVariant& variant;
  const DeviceInfo& device;
  SoftmaxConfig config;
};
using Rule = Constraint<Candidate>;

constexpr std::array kRules{
    Rule{{"architecture", "The family's instructions exist on the chip."},
         [](const Candidate& c) { return lacks_instructions(c.variant.family, c.device); }},
    Rule{{"whole_warps", "A row has whole warps."},
         [](const Candidate& c) {
           return unless(c.config.threads_per_row % 32 == 0,
                         text(c.config.threads_per_row) + " threads of a row are no whole warps");
         }},
    Rule{{"threads", "A CTA has at most 1024 threads."},
         [](const Candidate& c) { return exceeds_threads(c.config.threads(), c.device); }},
    Rule{{"vector_width", "1, 2, 4 or 8 elements, as the alignment allows."},
         [](const Candidate& c) {
           return unless(std::has_single_bit(static_cast<unsigned>(c.config.vector)) &&
                             2 * c.config.vector <= c.problem.alignment_bytes,
                         "accesses of " + text(c.config.vector) +
                             " elements do not fit addresses "
                             "that are multiples of " +
                             text(c.problem.alignment_bytes) + " bytes");
         }},
    Rule{{"held_row", "What is held is the row, and fits the registers."},
         [](const Candidate& c) {
           return unless(c.config.holds(c.problem.columns) &&
                             c.config.held * c.config.vector <= kMostHeldElements,
                         text(c.config.held) + " vectors of each thread are to hold " +
                             text(c.problem.columns) + " columns with at most " +
                             text(kMostHeldElements) + " elements of a thread");
         }},
    Rule{{"ring", "Stages belong to rows that are read twice, 16 bytes at a time."},
         [](const Candidate& c) {
           return unless(c.config.stages == 1 || (c.config.vector == 8 && c.config.held == 0),
                         "stages go with vector 8 and held 0");
         }},
    Rule{{"second_reading", "Sawtooth turns a second reading around."},
         [](const Candidate& c) {
           return unless(c.config.order == Order::cyclic ||
                             (c.config.held == 0 && c.config.steps(c.problem.columns) > 1),
                         "there is no second reading of several steps");
         }},
    Rule{{"shared_memory", "The stages fit the opt-in limit."},
         [](const Candidate& c) { return exceeds_shared_memory(c.config.smem_bytes(), c.device); }},
};
constexpr auto kInfos = all_infos(kRules);

/// What is enumerated of an axis that is not restricted.
Values usual_values(const SoftmaxProblem& problem, const SoftmaxVariant& variant,
                    std::string_view axis) {
  const long long widest = problem.alignment_bytes / 2;
  const int steps = config_of(problem, variant).steps(problem.columns);
  const std::map<std::string_view, Values> all{
      {"family", texts(kOneFamily)},
      {"tile_rows", {1LL, 2LL, 4LL, 8LL}},
      {"threads_per_row", {32LL, 64LL, 128LL, 256LL, 512LL, 1024LL}},
      {"vector", widest > 1 ? Values{widest / 2, widest} : Values{widest}},
      {"held",
       steps * variant.vector <= kMostHeldElements ? Values{0LL, 1LL * steps} : Values{0LL}},
      {"stages", {1LL, 2LL, 4LL, 8LL}},
      {"order", texts(kTwoOrders)},
      {"persistence", texts(kTwoPersistences)}};
  return all.at(axis);
}

/// Resident CTAs are taken to walk in step: between two readings of a byte all of them come by.
StreamedLaunch describe_stream(const Problem& asked, const Variant& chosen,
                               const GpuProfile& profile, int ctas_per_sm) {
  const auto& problem = asked.as<SoftmaxProblem>();
  const SoftmaxConfig config = config_of(problem, chosen.as<SoftmaxVariant>());
  const bool is_held = config.held > 0;
  const double elements = 1.0 * problem.rows * problem.columns;
  const double places = 1.0 * profile.device.sm_count * ctas_per_sm;
  const double rows = std::min<double>(problem.rows, places * config.tile_rows);
  constexpr int kUnrolledLoads = 4;  // Of the template's loop.
  const int vectors = is_held ? config.held : max_of(config.stages - 1, kUnrolledLoads);
  return {.geometry = launch_geometry(asked, chosen, profile.device.sm_count, ctas_per_sm),
          .bytes = compulsory_bytes(asked),
          .reread_bytes = is_held ? 0.0 : 2.0 * elements,
          .reread_miss_share =
              reread_miss_share(2.0 * rows * problem.columns, config.order == Order::sawtooth,
                                static_cast<double>(profile.l2_effective_bytes)),
          .exponentials = elements * (is_held ? 1.0 : 2.0 + 1.0 / config.vector),
          .tile_bytes_in_flight = 2.0 * config.threads() * config.vector * vectors};
}

}  // namespace

void validate(const SoftmaxProblem& problem) {
  constexpr int kMost = 1 << 24;
  for (const auto& [size, name] : {std::pair{problem.rows, "rows"}, {problem.columns, "columns"}}) {
    if (size < 1 || size > kMost) {
      throw Error(ErrorCode::invalid_argument,
                  std::string(name) + " must be 1 to 16777216, not " + text(size));
    }
  }
  require_alignment(problem.alignment_bytes);
}

/// Comparison, subtraction, exponential, addition and product for each element.
double flop_count(const SoftmaxProblem& problem) { return 5.0 * problem.rows * problem.columns; }

CompulsoryBytes compulsory_bytes(const SoftmaxProblem& problem) {
  const long long bytes = 2LL * problem.rows * problem.columns;
  return {.read = bytes, .write = bytes};
}

/// Two steps of the widest tile, which registers may hold as well.
void enlarge_sizes(SoftmaxProblem& problem) {
  problem.rows = 1 << 20;
  problem.columns = 2 * 1024 * 8;
}

SoftmaxVariant default_variant(const SoftmaxProblem& problem, const DeviceInfo& /*device*/) {
  return {.vector = problem.alignment_bytes / 2};
}

std::optional<BrokenConstraint> broken_constraint(const SoftmaxProblem& problem,
                                                  const SoftmaxVariant& variant,
                                                  const DeviceInfo& device) {
  return first_broken(kRules, Candidate{problem, variant, device, config_of(problem, variant)});
}

std::vector<Variant> points_of(Family /*family*/, const SoftmaxProblem& problem,
                               const DeviceInfo& /*device*/, const SpaceOptions& options) {
  require_no_tiles(options, "--tile-rows and --threads-per-row");
  return every_choice(SoftmaxVariant{}, softmax_operation().axes(), options,
                      [&](const Variant& variant, std::string_view axis) {
                        return usual_values(problem, variant.as<SoftmaxVariant>(), axis);
                      });
}

std::string tile_text_of(const SoftmaxVariant& variant) {
  return text(variant.tile_rows) + "x" + text(variant.threads_per_row);
}

namespace {

class SoftmaxOperation final
    : public PlainOperation<SoftmaxProblem, SoftmaxVariant, SoftmaxTensors>,
      public OperationModel {
 public:
  std::string_view name() const override { return "softmax"; }
  std::string_view summary() const override { return "softmax over the rows of a matrix"; }
  std::string_view example() const override { return "--rows 4096 --columns 1024,32768"; }
  std::span<const ConstraintInfo> constraints() const override { return kInfos; }
  std::span<const FamilySource> families() const override { return kSource; }
  const Axis* order_axis() const override { return &axis_named(*this, "order"); }
  double exponential_count(const Problem& problem) const override {
    return flop_count(problem) / 5.0;
  }
  const OperationModel* model() const override { return this; }
  std::unique_ptr<Predictor> make_predictor(const GpuProfile& profile) const override {
    return make_streaming_predictor(profile, describe_stream);
  }
  const PackagePart& package_part() const override {
    static constexpr PackagePart part{"softmax", "Softmax", softmax_package_templates};
    return part;
  }

  std::span<const ProblemField> fields() const override {
    using P = SoftmaxProblem;
    static const std::array all{
        size_field(&P::rows, "rows", "Rows of the matrix",
                   {.option = "rows", .is_required = true, .takes_list = true}),
        size_field(&P::columns, "columns", "Length of a row",
                   {.option = "columns", .is_required = true, .takes_list = true}),
        choice_field(&P::dtype, kDTypes, "dtype", "Type of both matrices", {.option = "dtype"}),
        alignment_field(&P::alignment_bytes)};
    return all;
  }

  std::span<const Axis> axes() const override {
    using V = SoftmaxVariant;
    static const std::array all{
        choice_axis(&V::family, kOneFamily, "family", "Kernel family."),
        integer_axis(&V::tile_rows, 1, 32, "tile_rows", "Rows of a CTA at a time."),
        integer_axis(&V::threads_per_row, 32, 1024, "threads_per_row", "Threads of a row."),
        integer_axis(&V::vector, 1, 8, "vector", "Elements of an access."),
        integer_axis(&V::held, 0, 64, "held", "Vectors a thread holds; 0: rows are read twice."),
        integer_axis(&V::stages, 1, 16, "stages", "Vectors in flight by cp.async; 1: loads."),
        choice_axis(&V::order, kTwoOrders, "order", "Direction of the second reading."),
        choice_axis(&V::persistence, kTwoPersistences, "persistence", "How CTAs get tiles.")};
    return all;
  }
};

}  // namespace

const Operation& softmax_operation() {
  static const SoftmaxOperation operation;
  return operation;
}

}  // namespace swr
