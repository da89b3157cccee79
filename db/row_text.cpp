// SPDX-License-Identifier: MIT
#include "core/bounded_json.h"
#include "core/enum_text.h"
#include "core/json.h"
#include "core/reject.h"
#include "db/problem_key.h"
#include "db/rows.h"
#include <swr/field.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr {
namespace {

bool take(std::string_view& text, std::string_view expected) {
  const bool is_there = text.starts_with(expected);
  text.remove_prefix(is_there ? expected.size() : 0);
  return is_there;
}

int least_of(const Field& field) { return field.type == FieldType::flag ? 0 : field.least; }
int most_of(const Field& field) { return field.type == FieldType::flag ? 1 : field.most; }

bool take_integer(std::string_view& text, const Field& field, int& value) {
  const char* const end = text.data() + text.size();
  const auto [behind, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || value < least_of(field) || value > most_of(field)) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(behind - text.data()));
  return true;
}

int checked_value(const Json& json, const Field& field) {
  return field.is_text()
             ? parse_enum<int>(field.spellings, json_text(json, field.name), field.name)
             : static_cast<int>(json_integer(json, field.name, least_of(field), most_of(field)));
}

/// `what` names the text in messages. Throws: Error when it is no object, or larger than any that
/// swr wrote.
Json parse_object(std::string_view text, std::string_view what) {
  constexpr JsonLimits kLimits{.bytes = 16384, .values = 1024, .depth = 4, .keys = 256};
  Json json = parse_json(text, std::string(what), kLimits);
  if (!json.is_object()) {
    reject(std::string(what) + " must be a JSON object");
  }
  return json;
}

/// The members of a struct as one line of JSON. The same values always give the same text, so that
/// rows are found by it; text in this layout is read without a parser.
/// Members in the order of the text: numbers, spellings as text, flags as 0 and 1.
class ObjectLayout {
 public:
  /// A member that has the value `left_out` is not written.
  void add(const Field& field, std::optional<int> left_out = {});

  std::string write(const void* object) const;

  /// Reads what write() wrote; false for any other text, when the object may be half set. Members
  /// that are not in the text stay as they are.
  bool read_canonical(std::string_view text, void* object) const;

  /// Reads the members in any order. Those that may be left out stay as they are when they are.
  /// Throws: Error{invalid_argument} naming the member that is not there, does not belong there or
  /// has a value that it cannot have.
  void read(const Json& json, void* object) const;

 private:
  struct Member {
    Field field;
    std::string label;                   ///< As it stands before the value.
    std::vector<std::string> spellings;  ///< In quotation marks.
    std::optional<int> left_out;
  };

  static bool take_value(std::string_view& text, const Member& member, int& value);

  std::vector<Member> members_;
};

void ObjectLayout::add(const Field& field, std::optional<int> left_out) {
  Member member{field, Json(field.name).dump() + ":", {}, left_out};
  std::ranges::transform(field.spellings, std::back_inserter(member.spellings),
                         [](std::string_view spelling) { return Json(spelling).dump(); });
  members_.push_back(std::move(member));
}

std::string ObjectLayout::write(const void* object) const {
  std::string text = "{";
  for (const Member& member : members_) {
    const int value = member.field.read(object);
    if (member.left_out == value) {
      continue;
    }
    text += text.size() > 1 ? "," : "";
    text += member.label;
    text += member.field.is_text() ? member.spellings[static_cast<std::size_t>(value)]
                                   : std::to_string(value);
  }
  return text + "}";
}

bool ObjectLayout::take_value(std::string_view& text, const Member& member, int& value) {
  if (!member.field.is_text()) {
    return take_integer(text, member.field, value);
  }
  const auto spelt = std::ranges::find_if(
      member.spellings, [&](const std::string& spelling) { return take(text, spelling); });
  value = static_cast<int>(spelt - member.spellings.begin());
  return spelt != member.spellings.end();
}

bool ObjectLayout::read_canonical(std::string_view text, void* object) const {
  bool is_first = true;
  if (!take(text, "{")) {
    return false;
  }
  for (const Member& member : members_) {
    std::string_view rest = text;
    int value = 0;
    if ((!is_first && !take(rest, ",")) || !take(rest, member.label)) {
      if (member.left_out) {
        continue;
      }
      return false;
    }
    if (!take_value(rest, member, value) || member.left_out == value) {
      return false;
    }
    member.field.write(object, value);
    text = rest;
    is_first = false;
  }
  return text == "}";
}

void ObjectLayout::read(const Json& json, void* object) const {
  std::size_t known = 0;
  for (const Member& member : members_) {
    if (!member.left_out || json.contains(member.field.name)) {
      member.field.write(object, checked_value(json, member.field));
      ++known;
    }
  }
  if (known == json.size()) {
    return;
  }
  for (const auto& entry : json.items()) {
    if (std::ranges::find(members_, entry.key(),
                          [](const Member& one) { return one.field.name; }) == members_.end()) {
      reject("there is no '" + entry.key() + "' that this swr knows");
    }
  }
}

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
