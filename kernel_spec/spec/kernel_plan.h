// SPDX-License-Identifier: MIT
// A spec, checked and ready to be computed: what a problem and a choice of values make of it.
#pragma once

#include "core/operation.h"
#include "kernel_spec/expression/expression.h"
#include "kernel_spec/space/space.h"
#include "kernel_spec/spec/element_type.h"
#include "kernel_spec/spec/stored_spec.h"
#include <swr/kernel_spec.h>

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace swr::kernel_spec {

/// Values of everything that expressions may name: parameters, sizes, lists. Lists lie in a heap of
/// its own, so it is not to be copied.
class Point {
 public:
  Point() = default;
  Point(const Point&) = delete;
  Point& operator=(const Point&) = delete;

  std::vector<Value> table;
  mutable ValueHeap heap;
};

struct PlannedLaunch {
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  int shared_bytes = 0;
  int times = 1;  ///< 0 where the step is left out.

  long long ctas() const { return 1LL * grid[0] * grid[1] * grid[2]; }
  int threads() const { return static_cast<int>(block[0] * block[1] * block[2]); }
};

struct PlannedArgument {
  KernelArgument spec;
  ElementType type;  ///< Where a parameter names it, of its usual value.
  /// By value of the parameter that names the type, whose place in the table is `type_place`.
  std::map<std::string, ElementType> types = {};
  std::size_t type_place = 0;
  std::optional<BoundExpression> size;  ///< Of a vector.
  std::vector<BoundExpression> extent;  ///< Of a texture: one to three.
  std::optional<BoundExpression> value;
  std::string file;  ///< The bytes of the files that the spec names.
  std::string expected;
  double absolute = 0.0;
  double relative = 0.0;

  /// What its elements are at a point.
  const ElementType& type_at(const Point& point) const {
    return types.empty() ? type : types.at(to_string(point.table[type_place]));
  }
  /// What outputs are compared as: where a parameter names their type, in fp64.
  NumberKind compared_as() const { return types.empty() ? type.kind : NumberKind::f64; }
};

struct PlannedStep {
  KernelStep spec;
  std::vector<BoundExpression> block;
  std::vector<BoundExpression> grid;
  BoundExpression shared_bytes;
  std::optional<BoundExpression> when;
  BoundExpression repeat;
  std::vector<std::size_t> arguments;  ///< Places.
};

/// Immutable; safe from any thread.
class KernelPlan {
 public:
  static constexpr std::size_t kMostSizes = 5;
  /// A variant has room for so many, of at most 256 values each where there are more than
  /// kMostLarge.
  static constexpr std::size_t kMostParameters = 124;
  static constexpr std::size_t kMostLarge = 31;

  /// Reads the source and all files. Throws: Error{invalid_argument} naming what cannot be;
  /// Error{not_found}, Error{unreadable} for files.
  explicit KernelPlan(KernelSpec spec);
  /// What text() wrote. Data files are missing, everything else is there.
  /// Throws: Error{invalid_argument} as for any other spec.
  explicit KernelPlan(StoredSpec stored);

  /// The spec with all that kernels are compiled from, by which KernelPlan(StoredSpec) makes an
  /// equal plan. Throws: Error{invalid_argument} where a name or an expression is no UTF-8.
  std::string text() const { return stored_text({spec_, files_}); }

  const KernelSpec& spec() const { return spec_; }
  const std::vector<PlannedArgument>& arguments() const { return arguments_; }
  const std::vector<PlannedStep>& steps() const { return steps_; }
  const std::vector<PlannedStep>& reference() const { return reference_; }
  /// False for the plan of a stored spec that names data files.
  bool has_data() const { return has_data_; }
  /// SHA-256 over everything that results depend on.
  const std::string& digest() const { return digest_; }

  /// `sizes` in the order of the spec, `choice` the place of each parameter's value.
  /// Throws: Error{invalid_argument} when a list cannot be computed.
  void fill(Point& point, std::span<const int> sizes, std::span<const int> choice) const;
  /// What the reference is launched with.
  std::vector<int> reference_choice() const;
  /// The place of each parameter's usual value.
  std::vector<int> usual_choice() const;

  /// The text of the first constraint that does not hold, and why where it cannot be computed.
  struct Broken {
    std::size_t constraint;
    std::string reason;
  };
  std::optional<Broken> broken(const Point& point) const;

  /// The space at these sizes; where `places` has an entry for a parameter, of these values alone.
  /// Throws: Error{invalid_argument} where it is too large.
  Space space(std::span<const int> sizes,
              const std::map<std::size_t, std::vector<int>>& places) const;

  // Throw, all of them: Error{invalid_argument} naming the expression.
  PlannedLaunch launch(const PlannedStep& step, const Point& point) const;
  /// Width, height and depth of a texture; 0 for those that it has not.
  std::array<std::size_t, 3> extent(const PlannedArgument& argument, const Point& point) const;
  /// Elements of a vector or a texture.
  long long elements(const PlannedArgument& argument, const Point& point) const;
  double flops(const Point& point) const;
  double bytes(const Point& point) const;

  /// A macro depends on sizes, so that a kernel of some sizes does not serve others.
  bool has_sizes_compiled_in() const;
  KernelProgram program(const Point& point, std::span<const int> choice) const;
  KernelProgram reference_program(const Point& point) const;

 private:
  BoundExpression bound(const std::string& text, const std::string& where,
                        bool has_index = false) const;
  void plan();
  void check_names();
  void check_objective() const;
  void read_parameters();
  void read_sources();
  void plan_arguments();
  void plan_type(PlannedArgument& planned, const std::string& where) const;
  std::vector<PlannedStep> planned(const std::vector<KernelStep>& steps,
                                   const std::string& where) const;
  PlannedStep planned(const KernelStep& step, const std::string& where) const;
  std::string entry_of(const KernelStep& step, std::span<const int> choice) const;
  KernelProgram program_of(const Point& point, std::span<const int> choice,
                           const std::vector<PlannedStep>& steps, const std::string& file,
                           const std::string& text,
                           const std::map<std::string, std::string>& headers) const;
  /// Whether sources read a parameter as a macro, which is a template's argument too.
  void find_macros();
  /// Of the compiler, with values in place of parameters.
  std::vector<std::string> options(std::span<const int> choice) const;
  std::string macros(const Point& point, std::span<const int> choice,
                     const std::vector<PlannedStep>& steps) const;
  std::string digest_of_all() const;

  KernelSpec spec_;
  std::vector<std::string> names_;  ///< Of the table.
  std::shared_ptr<ValueHeap> heap_ = std::make_shared<ValueHeap>();
  std::vector<std::vector<Value>> values_;  ///< By parameter.
  std::vector<std::pair<std::string, std::vector<BoundExpression>>> lists_;
  std::vector<BoundExpression> constraints_;
  std::vector<std::pair<std::string, BoundExpression>> defines_;
  SpecFiles files_;
  std::vector<bool> is_macro_too_;  ///< By parameter.
  bool has_data_ = true;
  std::vector<PlannedArgument> arguments_;
  std::vector<PlannedStep> steps_;
  std::vector<PlannedStep> reference_;
  std::optional<BoundExpression> flops_;
  std::optional<BoundExpression> bytes_;
  std::string digest_;
  /// Of all expressions, at all points.
  std::shared_ptr<StepBudget> budget_ = std::make_shared<StepBudget>();
};

/// True for a whole number that an axis can hold as such.
bool is_axis_number(const std::string& text);

/// A parameter's value as a variant's key has it: the same text, but for values that are empty or
/// have characters which keys need themselves. These become % and the text with such characters as
/// in URLs: "1, 2" is "%1%2C 2".
std::string key_text(const std::string& value);

}  // namespace swr::kernel_spec
