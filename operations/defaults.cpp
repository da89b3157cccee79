// SPDX-License-Identifier: MIT
// What Operation says where an operation has nothing more to say. Here, because it takes parts that
// core does not know.
#include "core/operation.h"
#include "core/shape_distance.h"
#include "model/predictor.h"
#include "operations/plain_operation.h"
#include "report/explain/explanation.h"

#include <string>
#include <vector>

namespace swr {
namespace {

bool is_told(const Operation& operation, const Variant& variant, const Axis& axis) {
  const bool is_family = axis.offset == operation.axes().front().offset;
  return axis.belongs_to(family_of(variant)) && (!is_family || operation.families().size() > 1);
}

/// "rows 4 stages 2 cyclic": choices speak for themselves, integers need their axis.
std::string choices(const Operation& operation, const Variant& variant, const Axis* without) {
  std::string text;
  for (const Axis& axis : operation.axes()) {
    if (&axis != without && is_told(operation, variant, axis)) {
      text += text.empty() ? "" : " ";
      text += (axis.is_text() ? "" : std::string(axis.name) + " ") + to_string(axis.get(variant));
    }
  }
  return text;
}

/// The operation's name and its fields, integers with their names; not those that are as usual.
std::string fields_text(const Operation& operation, const Problem& problem, char separator) {
  std::string text(operation.name());
  for (const ProblemField& field : operation.fields()) {
    const bool is_usual = field.read(problem.members()) == field.usual;
    if (field.is_text() || field.is_required || !is_usual) {
      text +=
          separator + (field.is_text() ? "" : std::string(field.name)) + field_text(problem, field);
    }
  }
  return text;
}

}  // namespace

std::string Operation::text(const Problem& problem) const {
  return fields_text(*this, problem, ' ');
}

std::string Operation::file_name(const Problem& problem) const {
  return fields_text(*this, problem, '_');
}

std::vector<VariantColumn> Operation::columns(std::span<const VariantResult> /*results*/) const {
  std::vector<VariantColumn> all;
  const Variant usual = default_axes();
  for (const Axis& axis : axes()) {
    if (is_told(*this, usual, axis) || axis.only) {
      all.push_back({std::string(axis.name), !axis.is_text(),
                     [&axis](const Variant& variant) { return to_string(axis.get(variant)); }});
    }
  }
  return all;
}

std::string Operation::description(const Variant& variant) const {
  return choices(*this, variant, nullptr);
}

std::string Operation::description_without_order(const Variant& variant) const {
  return choices(*this, variant, order_axis());
}

const Advice& Operation::advice() const {
  static constexpr Advice plain;
  return plain;
}

std::string Operation::conflict_advice(const Variant& /*variant*/) const {
  return "another width of accesses or another tile moves them";
}

double Operation::longest_trial_s(const Problem& problem) const {
  // A small part of what any supported GPU does: enough for the reference and for every launch of a
  // slow variant.
  constexpr double kBaseS = 60.0;
  constexpr double kFlopPerS = 1e11;
  return kBaseS + flop_count(problem) / kFlopPerS;
}

std::unique_ptr<Predictor> make_predictor(const Operation& operation, const GpuProfile& profile) {
  return operation.model() == nullptr ? nullptr : operation.model()->make_predictor(profile);
}

std::unique_ptr<ExplainedVariant> Operation::explain(const ExplainRequest& request) const {
  return explain_plainly(request);
}

std::string plain_package_row(const Problem& problem, const std::string& config) {
  std::string sizes;
  std::string kinds;
  int size_count = 0;
  for (const ProblemField& field : fields(problem.operation())) {
    std::string& values = field.role == FieldRole::size ? sizes : kinds;
    size_count += field.role == FieldRole::size ? 1 : 0;
    values += (values.empty() ? "" : ", ") + std::to_string(field.read(problem.members()));
  }
  for (; size_count < ShapePoint::kDimensions; ++size_count) {
    sizes += ", 1";
  }
  return package_list({package_list({sizes}), package_list({kinds})}) + ",\n     " +
         package_list({config});
}

}  // namespace swr
