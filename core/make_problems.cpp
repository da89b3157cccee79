// SPDX-License-Identifier: MIT
#include "core/make_problems.h"

#include "core/operation.h"

#include <algorithm>

namespace swr {
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
