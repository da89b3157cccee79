// SPDX-License-Identifier: MIT
#include "db/row_text.h"

#include "core/enum_text.h"
#include "db/derived.h"
#include "db/object_layout.h"

#include <utility>
#include <vector>

namespace swr {
namespace {

/// The value of a field that came later, with which it is not written.
std::optional<int> left_out(const Field& field, const void* usual) {
  return field.came_later ? std::optional<int>(field.read(usual)) : std::nullopt;
}

/// How the fields of an operation's problems are written.
struct ProblemLayout {
  explicit ProblemLayout(const Operation& described)
      : operation(&described), usual(described.default_problem()) {
    for (const ProblemField& field : described.fields()) {
      (field.role == FieldRole::kind ? kind : sizes).add(field, left_out(field, usual.members()));
    }
  }

  const Operation* operation;
  Problem usual;
  ObjectLayout kind;
  ObjectLayout sizes;
};

/// The same of variants, by family.
struct VariantLayout {
  struct OfFamily {
    std::string start;  ///< Of every text, with the family.
    ObjectLayout axes;
  };

  explicit VariantLayout(const Operation& described)
      : operation(&described), usual(described.default_axes()), family(&described.axes().front()) {
    for (std::size_t i = 0; i < family->spellings.size(); ++i) {
      families.push_back(of_family(static_cast<Family>(i)));
    }
  }

  OfFamily of_family(Family one) const {
    OfFamily layout;
    for (const Axis& axis : operation->axes()) {
      if (axis.belongs_to(one)) {
        layout.axes.add(axis, left_out(axis, usual.members()));
      }
    }
    layout.start = "{" + Json(family->name).dump() + ":" + Json(to_string(one)).dump();
    return layout;
  }

  const ObjectLayout& axes_of(Family one) const {
    return families[static_cast<std::size_t>(one)].axes;
  }

  const Operation* operation;
  Variant usual;
  const Axis* family;
  std::vector<OfFamily> families;
};

}  // namespace

std::string kind_text(const Problem& problem) {
  return derived_of<ProblemLayout>(problem.operation()).kind.write(problem.members());
}

std::string sizes_text(const Problem& problem) {
  return derived_of<ProblemLayout>(problem.operation()).sizes.write(problem.members());
}

std::string axes_text(const Variant& variant) {
  const auto& layout = derived_of<VariantLayout>(variant.operation());
  return layout.axes_of(family_of(variant)).write(variant.members());
}

FromText<Problem> problem_from_text(const Operation& operation, std::string_view kind,
                                    std::string_view sizes) {
  const auto& layout = derived_of<ProblemLayout>(operation);
  FromText<Problem> read{layout.usual};
  if (layout.kind.read_canonical(kind, read.value.members()) &&
      layout.sizes.read_canonical(sizes, read.value.members())) {
    operation.validate(read.value);
    return read;
  }
  return {problem_from_members(operation, parse_object(kind, "kind"), parse_object(sizes, "sizes")),
          false};
}

FromText<Variant> variant_from_text(const Operation& operation, std::string_view axes) {
  const auto& layout = derived_of<VariantLayout>(operation);
  for (const auto& of_family : layout.families) {
    FromText<Variant> read{layout.usual};
    if (axes.starts_with(of_family.start) &&
        of_family.axes.read_canonical(axes, read.value.members())) {
      return read;
    }
  }
  return {variant_from_members(operation, parse_object(axes, "axes")), false};
}

Problem problem_from_members(const Operation& operation, const Json& kind, const Json& sizes) {
  const auto& layout = derived_of<ProblemLayout>(operation);
  Problem problem = layout.usual;
  layout.kind.read(kind, problem.members());
  layout.sizes.read(sizes, problem.members());
  operation.validate(problem);
  return problem;
}

Variant variant_from_members(const Operation& operation, const Json& axes) {
  const auto& layout = derived_of<VariantLayout>(operation);
  const auto family = parse_enum<Family>(layout.family->spellings,
                                         json_text(axes, layout.family->name), layout.family->name);
  Variant variant = layout.usual;
  layout.axes_of(family).read(axes, variant.members());
  return variant;
}

}  // namespace swr
