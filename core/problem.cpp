// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include "core/field_builders.h"
#include "core/make_problems.h"
#include "core/operation.h"
#include <swr/problem.h>

#include <algorithm>
#include <vector>

namespace swr {
namespace {

/// By operation, nothing first.
std::strong_ordering order_of_registration(const Operation* a, const Operation* b) {
  const auto place = [](const Operation* operation) {
    return std::ranges::find(operations(), operation) - operations().begin();
  };
  if (a == b) {
    return std::strong_ordering::equal;
  }
  if (a == nullptr || b == nullptr) {
    return a == nullptr ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return place(a) <=> place(b);
}

template <typename Erased, typename Fields>
std::strong_ordering compare_members(const Erased& a, const Erased& b, const Fields& fields) {
  for (const Field& field : fields) {
    const auto order = field.read(a.members()) <=> field.read(b.members());
    if (order != 0) {
      return order;
    }
  }
  return std::strong_ordering::equal;
}

}  // namespace

std::strong_ordering operator<=>(const Problem& a, const Problem& b) {
  const auto order = order_of_registration(a.operation_, b.operation_);
  return order != 0 || a.operation_ == nullptr ? order
                                               : compare_members(a, b, a.operation_->fields());
}

std::strong_ordering operator<=>(const Variant& a, const Variant& b) {
  const auto order = order_of_registration(a.operation_, b.operation_);
  return order != 0 || a.operation_ == nullptr ? order
                                               : compare_members(a, b, a.operation_->axes());
}

std::string_view to_string(DType value) { return enum_text(kEveryDType, value); }
DType parse_dtype(std::string_view text) { return parse_enum<DType>(kDTypes, text, "dtype"); }

std::string_view name_of(const Operation& operation) { return operation.name(); }
std::span<const ProblemField> fields(const Operation& operation) { return operation.fields(); }

std::vector<const Operation*> operations_of_swr() {
  std::vector<const Operation*> own;
  for (const Operation* const operation : operations()) {
    if (operation->source_digest().empty()) {
      own.push_back(operation);
    }
  }
  return own;
}

const Operation* find_operation_or_null(std::string_view name) {
  const auto all = operations();
  const auto found = std::ranges::find(all, name, [](const Operation* one) { return one->name(); });
  return found == all.end() ? nullptr : *found;
}

const Operation& find_operation(std::string_view name) {
  if (const Operation* const found = find_operation_or_null(name)) {
    return *found;
  }
  std::vector<std::string_view> known;
  for (const Operation* const operation : operations()) {
    known.push_back(operation->name());
  }
  throw Error(ErrorCode::invalid_argument,
              "unknown op '" + std::string(name) + "'; choose one of " + join_spellings(known) +
                  ", or name the spec of a kernel of yours with --spec");
}

void validate(const Problem& problem) { problem.operation().validate(problem); }
double flop_count(const Problem& problem) { return problem.operation().flop_count(problem); }
CompulsoryBytes compulsory_bytes(const Problem& problem) {
  return problem.operation().compulsory_bytes(problem);
}
std::string to_string(const Problem& problem) { return problem.operation().text(problem); }

std::string field_text(const Problem& problem, const Field& field) {
  const int value = field.read(problem.members());
  return field.is_text() ? std::string(field.spellings[static_cast<std::size_t>(value)])
                         : std::to_string(value);
}

const Field* find_field(const Operation& operation, std::string_view name) {
  const auto all = operation.fields();
  const auto found = std::ranges::find(all, name, &ProblemField::name);
  return found == all.end() ? nullptr : &*found;
}

namespace {

const std::vector<int>& given_values(const ProblemValues& values, std::string_view name) {
  static const std::vector<int> kNone;
  const auto given = values.find(name);
  return given == values.end() ? kNone : given->second;
}

/// Every problem with every value of one field, those of one value together.
std::vector<Problem> with_values(const std::vector<Problem>& problems, const Field& field,
                                 const std::vector<int>& values) {
  std::vector<Problem> all;
  for (const int value : values) {
    for (Problem problem : problems) {
      field.write(problem.members(), value);
      all.push_back(problem);
    }
  }
  return all;
}

/// Fields that follow may spell their values in another order; what they lack leaves them as usual.
void follow(Problem& problem, const Field& field, const Field& followed) {
  int value = followed.read(problem.members());
  if (field.is_text()) {
    const auto spelt = std::ranges::find(field.spellings, field_text(problem, followed));
    if (spelt == field.spellings.end()) {
      return;
    }
    value = static_cast<int>(spelt - field.spellings.begin());
  }
  field.write(problem.members(), value);
}

}  // namespace

std::vector<Problem> make_problems(const Operation& operation, const ProblemValues& values) {
  std::vector<Problem> problems{operation.default_problem()};
  for (const ProblemField& field : operation.fields()) {
    const std::vector<int>& given = given_values(values, field.name);
    problems = with_values(problems, field, given.empty() ? std::vector{field.usual} : given);
  }
  for (const ProblemField& field : operation.fields()) {
    if (field.follows.empty() || !given_values(values, field.name).empty()) {
      continue;
    }
    for (Problem& problem : problems) {
      follow(problem, field, *find_field(operation, field.follows));
    }
  }
  for (const Problem& problem : problems) {
    validate(problem);
  }
  return problems;
}

}  // namespace swr
