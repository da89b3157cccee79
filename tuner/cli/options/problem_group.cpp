// SPDX-License-Identifier: MIT
#include "core/enum_text.h"
#include "core/make_problems.h"
#include "core/operation.h"
#include "tuner/cli/options/groups.h"
#include "tuner/cli/options/text.h"
#include "tuner/run/range_search.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace swr::cli {
namespace {

constexpr const char* kProblemGroup = "Problem";

std::string dashed(std::string_view option) { return "--" + std::string(option); }

/// The operations that have a field with the option.
std::vector<const Operation*> owners_of(std::string_view option) {
  std::vector<const Operation*> owners;
  std::ranges::copy_if(operations(), std::back_inserter(owners), [&](const Operation* operation) {
    return std::ranges::count(operation->fields(), option, &ProblemField::option) > 0;
  });
  return owners;
}

/// Options of one operation alone stand under its name.
std::string group_of(const ProblemField& field) {
  const auto owners = owners_of(field.option);
  return owners.size() > 1 ? kProblemGroup
                           : kProblemGroup + (" of --op " + std::string(owners.front()->name()));
}

/// What a field has that is not given.
std::string default_text(const Operation& operation, const ProblemField& field) {
  if (field.is_required) {
    return "";
  }
  if (!field.follows.empty()) {
    const auto followed = std::ranges::find(operation.fields(), field.follows, &ProblemField::name);
    return " [same as " + dashed(followed->option) + "]";
  }
  return " [" +
         (field.is_text() ? std::string(field.spellings[static_cast<std::size_t>(field.usual)])
                          : std::to_string(field.usual)) +
         "]";
}

std::string choices_text(const ProblemField& field) {
  return field.is_text() ? ": " + join_spellings(field.spellings) : "";
}

void add_field(CLI::App& app, ProblemText& problem, const Operation& operation,
               const ProblemField& field, const std::string& list_help) {
  const std::string name = dashed(field.option);
  if (app.get_option_no_throw(name) != nullptr) {
    return;  // Another operation's as well.
  }
  const std::string option(field.option);
  const std::string summary(field.summary);
  if (field.type == FieldType::flag) {
    app.add_flag_callback(
           name, [&problem, option] { problem.given[option] = "true"; }, summary)
        ->group(group_of(field));
    return;
  }
  const bool is_listed = field.takes_list && !list_help.empty();
  app.add_option_function<std::string>(
         name, [&problem, option](const std::string& text) { problem.given[option] = text; },
         summary + choices_text(field) + (is_listed ? "; " + list_help : "") +
             default_text(operation, field))
      ->type_name(field.is_text() ? "TEXT"
                  : is_listed     ? "N[,N]"
                                  : "N")
      ->group(group_of(field));
}

void add_fields(CLI::App& app, ProblemText& problem, FieldRole role, const std::string& list_help) {
  for (const Operation* const operation : operations_of_swr()) {
    for (const ProblemField& field : operation->fields()) {
      if (field.role == role) {
        add_field(app, problem, *operation, field, list_help);
      }
    }
  }
}

/// The lengths to tune of LOW..HIGH; none for another text.
std::vector<int> lengths_of_range(const std::string& option, const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    return {};
  }
  const int low = whole_number(text.substr(0, dots), option);
  const int high = whole_number(text.substr(dots + 2), option);
  if (low < 1 || high < low) {
    reject(option + " takes a range as LOW..HIGH from 1 on, e.g. 1..131072, not '" + text + "'");
  }
  return lengths_between(low, high);
}

/// Sizes of users' kernels have no options of their own.
std::string asked_as(const Operation& operation, const ProblemField& field) {
  return operation.source_digest().empty() ? dashed(field.option)
                                           : "--arg " + std::string(field.option);
}

std::vector<int> values_of(const Operation& operation, const ProblemField& field,
                           const std::string& text) {
  const std::string name = asked_as(operation, field);
  if (field.type == FieldType::flag) {
    return {1};
  }
  if (field.is_text()) {
    return {parse_enum<int>(field.spellings, text, field.name)};
  }
  std::vector<int> values = field.takes_list ? lengths_of_range(name, text) : std::vector<int>();
  if (!values.empty()) {
    return values;
  }
  for (const std::string& part :
       field.takes_list ? split(text, ',') : std::vector<std::string>{text}) {
    values.push_back(whole_number(part, name.c_str()));
  }
  return values;
}

/// Throws: Error{invalid_argument} for options that belong to other operations alone.
void require_own(const ProblemText& text, const Operation& operation) {
  for (const auto& [option, value] : text.given) {
    const auto owners = owners_of(option);
    if (std::ranges::find(owners, &operation) == owners.end()) {
      reject(dashed(option) + " belongs to --op " + std::string(owners.front()->name()) +
             ", not to --op " + text.op);
    }
  }
}

ProblemValues given_values(const ProblemText& text, const Operation& operation) {
  if (operation.source_digest().empty()) {
    require_own(text, operation);
  }
  ProblemValues values;
  for (const ProblemField& field : operation.fields()) {
    const auto given = text.given.find(std::string(field.option));
    if (given != text.given.end()) {
      values[std::string(field.name)] = values_of(operation, field, given->second);
    }
  }
  return values;
}

std::string operation_names() {
  std::vector<std::string_view> names;
  for (const Operation* const operation : operations_of_swr()) {
    names.push_back(operation->name());
  }
  return join_spellings(names);
}

}  // namespace

ProblemText::ProblemText() : op(operations().front()->name()) {}

void add_kernel_options(CLI::App& app, ProblemText& problem) {
  app.add_option("--op", problem.op, "Operation: " + operation_names())
      ->capture_default_str()
      ->group(kProblemGroup);
  add_fields(app, problem, FieldRole::kind, "");
}

void add_problem_options(CLI::App& app, ProblemText& problem, const char* list_help) {
  add_fields(app, problem, FieldRole::size, list_help);
  add_kernel_options(app, problem);
}

std::vector<Problem> problems(const ProblemText& text) {
  const Operation& operation = find_operation(text.op);
  const ProblemValues values = given_values(text, operation);
  for (const ProblemField& field : operation.fields()) {
    if (field.is_required && !values.contains(field.name)) {
      reject(dashed(field.option) + " is required");
    }
  }
  return make_problems(operation, values);
}

std::vector<int> asked_range(const ProblemText& text) {
  for (const auto& [option, value] : text.given) {
    auto lengths = lengths_of_range(dashed(option), value);
    if (!lengths.empty()) {
      return lengths;
    }
  }
  return {};
}

Problem kernel_problem(const ProblemText& text) {
  const Operation& operation = find_operation(text.op);
  ProblemValues values = given_values(text, operation);
  for (const ProblemField& field : operation.fields()) {
    if (field.is_required) {
      values[std::string(field.name)] = {1};
    }
  }
  Problem problem = make_problems(operation, values).front();
  operation.enlarge(problem);
  validate(problem);
  return problem;
}

std::string problem_arguments(const Problem& problem) {
  const Operation& operation = problem.operation();
  if (!operation.source_digest().empty()) {
    std::string text = operation.spec_file().empty()
                           ? " --op " + std::string(operation.name())
                           : " --spec " + std::string(operation.spec_file());
    for (const ProblemField& field : operation.fields()) {
      text.append(" --arg ").append(field.name).append("=").append(field_text(problem, field));
    }
    return text;
  }
  std::string text =
      &operation == operations().front() ? "" : " --op " + std::string(operation.name());
  for (const ProblemField& field : operation.fields()) {
    const int value = field.read(problem.members());
    const Field* const followed = find_field(operation, field.follows);
    const bool is_usual = followed != nullptr
                              ? field_text(problem, field) == field_text(problem, *followed)
                              : !field.is_required && value == field.usual;
    if (!is_usual) {
      text += " " + dashed(field.option) +
              (field.type == FieldType::flag ? "" : " " + field_text(problem, field));
    }
  }
  return text;
}

}  // namespace swr::cli
