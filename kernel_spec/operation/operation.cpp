// SPDX-License-Identifier: MIT
#include "core/axis_values.h"
#include "core/constraint_rules.h"
#include "core/field_builders.h"
#include "core/no_fork.h"
#include "core/reject.h"
#include "generator/expansion.h"
#include "kernel_spec/operation/user_kernel.h"
#include <swr/error.h>
#include <swr/kernel_spec.h>
#include <swr/store.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <numeric>

namespace swr {
namespace {

using kernel_spec::KernelPlan;
using kernel_spec::PlannedLaunch;
using kernel_spec::Point;

constexpr std::size_t kDigestLetters = 8;  ///< Enough to tell specs of one name apart.
constexpr long long kMostListed = 1'000'000;

/// Rules that every kernel's launches obey, behind the spec's own.
enum Limit : std::size_t {
  kValues,
  kThreads,
  kBlock,
  kGrid,
  kSharedMemory,
  kLaunchable,
  kListed,
  kLimits
};
constexpr std::array<ConstraintInfo, kLimits> kLimitInfos{
    {{"values", "Each parameter has one of its values."},
     {"threads", "A CTA has at most 1024 threads."},
     {"block", "No side of a CTA is above 1024, 1024 and 64."},
     {"grid", "No side of the grid is above 2147483647, 65535 and 65535."},
     {"shared_memory", "Dynamic shared memory fits the opt-in limit."},
     {"launchable", "Every expression of the launch can be computed."},
     {"listed", "Of more points a million, spread over the space, are looked at."}}};

std::span<const std::string_view> one_family() { return std::span(kFamilies).first<1>(); }

bool is_number_axis(const KernelParameter& parameter) {
  return std::ranges::all_of(parameter.values, kernel_spec::is_axis_number);
}

int index_of(const KernelParameter& parameter, const std::string& value) {
  const auto found = std::ranges::find_if(parameter.values, [&](const std::string& one) {
    return one == value || kernel_spec::key_text(one) == value;
  });
  return found == parameter.values.end() ? -1 : static_cast<int>(found - parameter.values.begin());
}

constexpr std::size_t kMemberBytes = sizeof(int);

std::string operation_name(const kernel_spec::KernelPlan& plan) {
  return plan.spec().name + "_" + plan.digest().substr(0, kDigestLetters);
}

}  // namespace

UserKernel::UserKernel(KernelPlan plan, const std::filesystem::path& file)
    : first_(new Described{std::move(plan), file.string()}),
      plan_(first_->plan),
      described_(first_.get()),
      name_(operation_name(plan_)) {
  make_fields();
  make_axes();
  make_package_part();
  for (const std::string& constraint : plan_.spec().constraints) {
    constraints_.push_back({constraint, "A condition of the spec."});
  }
  constraints_.insert(constraints_.end(), kLimitInfos.begin(), kLimitInfos.end());
  constraints_.insert(constraints_.end(), {kSpills, kSerialized, kResidency});
  family_ = {.family = Family::portable,
             .file = plan_.spec().source_file,
             .entry = plan_.spec().steps.front().entry,
             .first_arch = 1,
             .last_arch = std::numeric_limits<int>::max(),
             .first_waiting_arch = std::numeric_limits<int>::max(),
             .arch_suffix = "",
             .config_header = ""};
  for (const KernelSize& size : plan_.spec().sizes) {
    example_ +=
        (example_.empty() ? "--arg " : " --arg ") + size.name + "=" + std::to_string(size.usual);
  }
}

void UserKernel::make_fields() {
  for (const KernelSize& size : plan_.spec().sizes) {
    ProblemField& field = fields_.emplace_back();
    field.name = size.name;
    field.summary = "A size of the kernel";
    field.offset = (fields_.size() - 1) * kMemberBytes;
    field.most = kMostOfAnyField;
    field.role = FieldRole::size;
    field.option = size.name;
    field.usual = size.usual;
    field.takes_list = true;
  }
}

void UserKernel::make_axes() {
  Axis& family = axes_.emplace_back();
  family.name = "family";
  family.summary = "Kernel family.";
  family.type = FieldType::choice;
  family.spellings = one_family();
  const bool is_crowded = plan_.spec().parameters.size() > kernel_spec::KernelPlan::kMostLarge;
  for (const KernelParameter& parameter : plan_.spec().parameters) {
    Axis& axis = axes_.emplace_back();
    axis.name = parameter.name;
    axis.summary = "A parameter of the kernel.";
    axis.offset = is_crowded ? kMemberBytes + axes_.size() - 2 : (axes_.size() - 1) * kMemberBytes;
    axis.is_byte = is_crowded;
    std::vector<int>& numbers = numbers_.emplace_back();
    if (is_number_axis(parameter) && !is_crowded) {
      std::ranges::transform(parameter.values, std::back_inserter(numbers),
                             [](const std::string& value) { return std::stoi(value); });
      axis.type = FieldType::integer;
      axis.most = kMostOfAnyField;
      continue;
    }
    axis.type = FieldType::choice;
    auto& spellings = spellings_.emplace_back();
    for (const std::string& value : parameter.values) {
      spellings.push_back(sentences_.emplace_back(kernel_spec::key_text(value)));
    }
    axis.spellings = spellings;
    axis.most = static_cast<int>(parameter.values.size()) - 1;
  }
}

std::vector<int> UserKernel::sizes_of(const Problem& problem) const {
  std::vector<int> sizes;
  for (const ProblemField& field : fields_) {
    sizes.push_back(field.read(problem.members()));
  }
  return sizes;
}

std::vector<int> UserKernel::choice_of(const Variant& variant) const {
  std::vector<int> choice;
  for (std::size_t i = 0; i < plan_.spec().parameters.size(); ++i) {
    const Axis& axis = axes_[i + 1];
    const int value = axis.read(variant.members());
    if (axis.is_text()) {
      choice.push_back(value);
      continue;
    }
    const auto found = std::ranges::find(numbers_[i], value);
    choice.push_back(found == numbers_[i].end() ? -1
                                                : static_cast<int>(found - numbers_[i].begin()));
  }
  return choice;
}

Variant UserKernel::variant_of(std::span<const int> choice) const {
  Variant variant = Variant::zeroed(*this);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto place = static_cast<std::size_t>(choice[i]);
    axes_[i + 1].write(variant.members(), axes_[i + 1].is_text() ? choice[i] : numbers_[i][place]);
  }
  return variant;
}

void UserKernel::fill(Point& point, const Problem& problem, const Variant& variant) const {
  plan_.fill(point, sizes_of(problem), choice_of(variant));
}

Problem UserKernel::default_problem() const {
  Problem problem = Problem::zeroed(*this);
  for (const ProblemField& field : fields_) {
    field.write(problem.members(), field.usual);
  }
  return problem;
}

void UserKernel::validate(const Problem& problem) const {
  for (const ProblemField& field : fields_) {
    if (field.read(problem.members()) < 1) {
      reject(std::string(field.name) + " must be 1 or more, not " +
             std::to_string(field.read(problem.members())));
    }
  }
  Point point;
  plan_.fill(point, sizes_of(problem), plan_.usual_choice());
}

double UserKernel::amount_of(const Problem& problem,
                             double (KernelPlan::*amount)(const Point&) const) const {
  constexpr double kMost = 1e18;  // A count in a long long.
  try {
    Point point;
    plan_.fill(point, sizes_of(problem), plan_.usual_choice());
    const double found = (plan_.*amount)(point);
    return found > 0.0 && found < kMost ? found : 0.0;
  } catch (const Error&) {
    return 0.0;  // It only informs: no page and no answer may fail for it.
  }
}

double UserKernel::flop_count(const Problem& problem) const {
  return amount_of(problem, &KernelPlan::flops);
}

CompulsoryBytes UserKernel::compulsory_bytes(const Problem& problem) const {
  return {.read = static_cast<long long>(amount_of(problem, &KernelPlan::bytes)), .write = 0};
}

std::string UserKernel::text(const Problem& problem) const {
  std::string text = plan_.spec().name;
  for (const ProblemField& field : fields_) {
    text.append(" ").append(field.name).append("=").append(field_text(problem, field));
  }
  return text;
}

std::string UserKernel::file_name(const Problem& problem) const {
  std::string name = name_;
  for (const ProblemField& field : fields_) {
    name.append("_").append(field_text(problem, field));
  }
  return name;
}

void UserKernel::enlarge(Problem& problem) const {
  for (const ProblemField& field : fields_) {
    field.write(problem.members(), std::max(field.usual, field.read(problem.members())));
  }
}

Variant UserKernel::default_axes() const { return variant_of(plan_.usual_choice()); }

/// The usual values, or the first point of the space where these are not legal.
Variant UserKernel::default_variant(const Problem& problem, const DeviceInfo& device) const {
  const Variant usual = default_axes();
  if (!broken_constraint(problem, usual, device)) {
    return usual;
  }
  const kernel_spec::Space legal = space(problem, {});
  for (long long i = 0; i < std::min(legal.points(), kMostListed); ++i) {
    const Variant variant = variant_of(legal.at(i));
    if (!broken_constraint(problem, variant, device)) {
      return variant;
    }
  }
  return usual;
}

std::vector<PlannedLaunch> UserKernel::launches(const Problem& problem,
                                                const Variant& variant) const {
  Point point;
  fill(point, problem, variant);
  std::vector<PlannedLaunch> all;
  for (const kernel_spec::PlannedStep& step : plan_.steps()) {
    all.push_back(plan_.launch(step, point));
  }
  return all;
}

std::optional<std::string> UserKernel::broken_limit(std::size_t& which, const Problem& problem,
                                                    const Variant& variant,
                                                    const DeviceInfo& device) const {
  constexpr std::array<unsigned, 3> kMostBlock{1024, 1024, 64};
  constexpr std::array<unsigned, 3> kMostGrid{2147483647, 65535, 65535};
  constexpr const char* kSides[] = {"x", "y", "z"};
  for (const PlannedLaunch& launch : launches(problem, variant)) {
    for (std::size_t i = 0; i < 3; ++i) {
      which = kBlock;
      if (launch.block[i] > kMostBlock[i]) {
        return "a CTA of " + swr::text(launch.block[i]) + " threads along " + kSides[i];
      }
      which = kGrid;
      if (launch.grid[i] > kMostGrid[i]) {
        return "a grid of " + swr::text(launch.grid[i]) + " CTAs along " + kSides[i];
      }
    }
    which = kThreads;
    if (auto reason = exceeds_threads(launch.threads(), device)) {
      return reason;
    }
    which = kGrid;
    if (launch.ctas() > std::numeric_limits<int>::max()) {
      return "a grid of " + swr::text(launch.ctas()) + " CTAs";
    }
    which = kSharedMemory;
    if (auto reason = exceeds_shared_memory(launch.shared_bytes, device)) {
      return reason;
    }
  }
  return std::nullopt;
}

std::optional<BrokenConstraint> UserKernel::broken_constraint(const Problem& problem,
                                                              const Variant& variant,
                                                              const DeviceInfo& device) const {
  const std::vector<int> choice = choice_of(variant);
  const std::size_t own = plan_.spec().constraints.size();
  if (const auto foreign = std::ranges::find(choice, -1); foreign != choice.end()) {
    const auto place = static_cast<std::size_t>(foreign - choice.begin());
    return BrokenConstraint{constraints_[own + kValues],
                            plan_.spec().parameters[place].name + " has no value " +
                                to_string(axes_[place + 1].get(variant))};
  }
  Point point;
  plan_.fill(point, sizes_of(problem), choice);
  if (const auto broken = plan_.broken(point)) {
    return BrokenConstraint{constraints_[broken->constraint], broken->reason};
  }
  std::size_t which = kLaunchable;
  try {
    if (auto reason = broken_limit(which, problem, variant, device)) {
      return BrokenConstraint{constraints_[own + which], std::move(*reason)};
    }
  } catch (const Error& error) {
    point.heap.require_budget();
    return BrokenConstraint{constraints_[own + kLaunchable], error.what()};
  }
  return std::nullopt;
}

kernel_spec::Space UserKernel::space(const Problem& problem, const SpaceOptions& options) const {
  require_no_tiles(options, "--axis NAME=VALUES");
  std::map<std::size_t, std::vector<int>> places;
  for (std::size_t i = 0; i < plan_.spec().parameters.size(); ++i) {
    const KernelParameter& parameter = plan_.spec().parameters[i];
    const Values* const asked = restriction_of(options, parameter.name);
    if (asked == nullptr) {
      continue;
    }
    for (const AxisValue& value : *asked) {
      const int place = index_of(parameter, to_string(value));
      if (place < 0) {
        reject("parameter " + parameter.name + " has no value " + to_string(value));
      }
      places[i].push_back(place);
    }
  }
  return plan_.space(sizes_of(problem), places);
}

namespace {

long long listed(const kernel_spec::Space& space) { return std::min(space.points(), kMostListed); }

std::map<std::string, long long> by_condition(const kernel_spec::Space& space) {
  std::map<std::string, long long> left_out;
  for (const kernel_spec::DroppedPoints& dropped : space.dropped()) {
    if (dropped.points > 0) {
      left_out[dropped.condition] += dropped.points;
    }
  }
  if (listed(space) < space.points()) {
    left_out[std::string(kLimitInfos[kListed].name)] = space.points() - listed(space);
  }
  return left_out;
}

/// From one listed point to the next: one where all are listed. Else a step that meets no point
/// twice, and about the golden part of the space, so that any number of steps is spread evenly.
long long step_through(const kernel_spec::Space& space) {
  if (listed(space) == space.points()) {
    return 1;
  }
  constexpr double kGolden = 0.6180339887498949;
  auto step = static_cast<long long>(static_cast<double>(space.points()) * kGolden);
  while (std::gcd(step, space.points()) != 1) {
    ++step;
  }
  return step;
}

}  // namespace

Points UserKernel::points(Family /*family*/, const Problem& problem, const DeviceInfo& /*device*/,
                          const SpaceOptions& options) const {
  const kernel_spec::Space found = space(problem, options);
  std::vector<Variant> variants;
  variants.reserve(static_cast<std::size_t>(listed(found)));
  std::vector<std::vector<int>> values(plan_.spec().parameters.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const KernelParameter& parameter = plan_.spec().parameters[i];
    if (const Values* const asked = restriction_of(options, parameter.name)) {
      for (const AxisValue& value : *asked) {
        values[i].push_back(index_of(parameter, to_string(value)));
      }
    }
  }
  const long long step = step_through(found);
  long long place = 0;
  for (long long i = 0; i < listed(found); ++i) {
    std::vector<int> choice = found.at(place);
    place = place >= found.points() - step ? place - (found.points() - step) : place + step;
    for (std::size_t k = 0; k < choice.size(); ++k) {
      if (!values[k].empty()) {
        choice[k] = values[k][static_cast<std::size_t>(choice[k])];
      }
    }
    variants.push_back(variant_of(choice));
  }
  return {std::move(variants), by_condition(found)};
}

std::optional<KernelProgram> UserKernel::program(const Problem& problem,
                                                 const Variant& variant) const {
  Point point;
  fill(point, problem, variant);
  return plan_.program(point, choice_of(variant));
}

std::optional<KernelProgram> UserKernel::reference_program(const Problem& problem) const {
  if (plan_.reference().empty()) {
    return std::nullopt;
  }
  Point point;
  plan_.fill(point, sizes_of(problem), plan_.reference_choice());
  return plan_.reference_program(point);
}

double UserKernel::longest_trial_s(const Problem& /*problem*/) const {
  return plan_.spec().deadline_s;
}

Variant UserKernel::without_launch_choices(const Variant& variant) const {
  Variant kernel = variant;
  const Variant usual = default_axes();
  for (std::size_t i = 0; i < plan_.spec().parameters.size(); ++i) {
    if (plan_.spec().parameters[i].use == ParameterUse::launch) {
      axes_[i + 1].write(kernel.members(), axes_[i + 1].read(usual.members()));
    }
  }
  return kernel;
}

std::string UserKernel::config_header(const Problem& problem, const Variant& variant) const {
  return program(problem, variant)->text;
}

/// The most of all launches.
int UserKernel::smem_bytes(const Problem& problem, const Variant& variant) const {
  int most = 0;
  for (const PlannedLaunch& launch : launches(problem, variant)) {
    most = std::max(most, launch.shared_bytes);
  }
  return most;
}

int UserKernel::threads_per_cta(const Problem& problem, const Variant& variant) const {
  int most = 1;
  for (const PlannedLaunch& launch : launches(problem, variant)) {
    most = std::max(most, launch.threads());
  }
  return most;
}

int UserKernel::computing_warps(const Variant& variant) const {
  return (threads_per_cta(default_problem(), variant) + 31) / 32;
}

/// Of the first launch, all sides in one.
LaunchGeometry UserKernel::launch_geometry(const Problem& problem, const Variant& variant,
                                           int /*sm_count*/, int /*ctas_per_sm*/) const {
  for (const PlannedLaunch& launch : launches(problem, variant)) {
    if (launch.times > 0) {
      return {.grid_x = static_cast<int>(launch.ctas()),
              .block_x = launch.threads(),
              .dynamic_smem_bytes = launch.shared_bytes};
    }
  }
  return {.grid_x = 1, .block_x = 1, .dynamic_smem_bytes = 0};
}

std::string UserKernel::tile_text(const Variant& variant) const {
  return std::to_string(threads_per_cta(default_problem(), variant));
}

std::unique_ptr<Workload> UserKernel::make_workload(const Problem& problem,
                                                    const WorkloadTools& tools,
                                                    unsigned long long seed) const {
  return make_user_workload(*this, problem, tools, seed);
}

void UserKernel::complete(KernelPlan plan, const std::filesystem::path& file) const {
  if (spec_file().empty() && completed_ == nullptr) {
    completed_.reset(new Described{std::move(plan), file.string()});
    described_ = completed_.get();
  }
}

namespace {

/// Of registering, which looks first.
std::mutex& registering() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

namespace {

/// Places that databases leave to kernels whose specs are read.
constexpr std::size_t kKeptForSpecs = 32;

}  // namespace

const Operation& register_kernel(const KernelSpec& spec, const std::filesystem::path& file) {
  KernelPlan plan(spec);
  const NoFork meanwhile;
  const std::lock_guard lock(registering());
  const Operation* const known = find_operation_or_null(operation_name(plan));
  if (known != nullptr && known->source_digest() == plan.digest()) {
    dynamic_cast<const UserKernel&>(*known).complete(std::move(plan), file);
    return *known;
  }
  return register_operation(std::make_unique<UserKernel>(std::move(plan), file));
}

const Operation* restore_operation(std::string_view name, std::string_view digest,
                                   std::string_view stored_text) {
  const NoFork meanwhile;
  const std::lock_guard lock(registering());
  if (const Operation* const known = find_operation_or_null(name)) {
    if (known->source_digest() != digest) {
      reject("another kernel is called " + std::string(name) + " in this process");
    }
    return known;
  }
  if (operations().size() >= kMostOperations - kKeptForSpecs) {
    return nullptr;
  }
  KernelPlan plan(kernel_spec::read_stored_text(stored_text));
  if (operation_name(plan) != name || plan.digest() != digest) {
    reject("the spec is not of " + std::string(name) + " and its digest, but of " +
           operation_name(plan));
  }
  return &register_operation(std::make_unique<UserKernel>(std::move(plan), ""));
}

std::string kernel_digest(const Operation& operation) { return operation.source_digest(); }

std::string kernel_objective(const Operation& operation) {
  const auto* const kernel = dynamic_cast<const UserKernel*>(&operation);
  const bool names_one = kernel != nullptr && !kernel->plan().spec().objective.empty();
  return names_one ? kernel->plan().spec().objective : std::string(kTimeObjective);
}

Problem kernel_problem(const Operation& operation, const std::map<std::string, int>& sizes) {
  Problem problem = operation.default_problem();
  std::vector<std::string> known;
  for (const ProblemField& field : operation.fields()) {
    known.emplace_back(field.name);
  }
  for (const auto& [name, value] : sizes) {
    const Field* const field = find_field(operation, name);
    if (field == nullptr) {
      reject("the kernel has no size '" + name + "'" +
             kernel_spec::advice_for_unknown(name, known));
    }
    field->write(problem.members(), value);
  }
  operation.validate(problem);
  return problem;
}

}  // namespace swr
