// SPDX-License-Identifier: MIT
#include "tuner/cli/options.h"

#include "core/enum_text.h"
#include "core/make_problems.h"
#include "core/operation.h"
#include "core/reject.h"
#include "tuner/cli/commands.h"
#include "tuner/run/range_search.h"
#include <swr/variant.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

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

void add_field(OptionList& options, ProblemText& problem, const Operation& operation,
               const ProblemField& field, const std::string& list_help) {
  const std::string name = dashed(field.option);
  if (options.has(name)) {
    return;  // Another operation's as well.
  }
  const std::string option(field.option);
  const std::string summary(field.summary);
  if (field.type == FieldType::flag) {
    options.add_flag(name, [&problem, option] { problem.given[option] = "true"; }, summary,
                     {.group = group_of(field)});
    return;
  }
  const bool is_listed = field.takes_list && !list_help.empty();
  options.add_call(name + (field.is_text() ? " TEXT"
                           : is_listed     ? " N[,N]"
                                           : " N"),
                   [&problem, option](const std::string& text) { problem.given[option] = text; },
                   summary + choices_text(field) + (is_listed ? "; " + list_help : "") +
                       default_text(operation, field),
                   {.group = group_of(field)});
}

void add_fields(OptionList& options, ProblemText& problem, FieldRole role,
                const std::string& list_help) {
  for (const Operation* const operation : operations_of_swr()) {
    for (const ProblemField& field : operation->fields()) {
      if (field.role == role) {
        add_field(options, problem, *operation, field, list_help);
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

std::string option_name(std::string_view axis_name) {
  std::string name = "--" + std::string(axis_name);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_tile_axis(std::string_view name) {
  return name == "tile_m" || name == "tile_n" || name == "warps";
}

std::string axis_help(const Axis& axis) {
  std::string choices;
  for (const auto spelling : axis.spellings) {
    choices += (choices.empty() ? " One or more of: " : ", ") + std::string(spelling);
  }
  return std::string(axis.summary) + (choices.empty() ? "" : choices + ".");
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

int whole_number(const std::string& text, const std::string& option) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    reject(option + " takes whole numbers of at most 2147483647, not '" + text + "'");
  }
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject(option + " takes whole numbers, not '" + text + "'");
  }
  return value;
}

std::vector<int> whole_numbers(const std::string& text, const std::string& option) {
  std::vector<int> numbers;
  for (const std::string& part : split(text, ',')) {
    numbers.push_back(whole_number(part, option));
  }
  return numbers;
}

std::pair<std::string, std::string> named_values(const std::string& text, const char* option) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    reject(std::string(option) + " takes NAME=VALUE, not '" + text + "'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool SpaceText::names_axes() const {
  return !tiles.empty() ||
         std::ranges::any_of(axis_values, [](const auto& axis) { return !axis.second.empty(); });
}

ProblemText::ProblemText() : op(operations().front()->name()) {}

void add_kernel_options(OptionList& options, ProblemText& problem) {
  options.add_call("--op",
                   [&problem](const std::string& text) {
                     problem.op = text;
                     problem.names_op = true;
                   },
                   "Operation: " + operation_names(),
                   {.group = kProblemGroup, .usual = problem.op});
  add_fields(options, problem, FieldRole::kind, "");
}

void add_problem_options(OptionList& options, ProblemText& problem, const char* list_help) {
  add_fields(options, problem, FieldRole::size, list_help);
  add_kernel_options(options, problem);
}

void add_spec_option(OptionList& options) {
  options.add("--spec FILE", options.common().specs,
              "Spec of a kernel of yours, in place of --op; more than one where each is read",
              {.group = kProblemGroup, .role = FileRole::input});
}

void add_spec_options(OptionList& options, ProblemText& problem) {
  add_spec_option(options);
  options.add("--arg NAME=N[,N]", problem.sizes,
              "A size of the kernel of --spec, or of --op NAME where the database has its spec",
              {.group = kProblemGroup});
}

CLI::Option* add_gpu_option(OptionList& options, std::string& gpu) {
  return options.add(
      "--gpu GPU", gpu,
      "auto (the first GPU present), a profile (see swr-tune devices) or a profile's "
      ".json file; a GPU that is not present is predicted",
      {.shows_usual = true, .role = FileRole::input});
}

void add_database_option(OptionList& options) {
  options.add("--db FILE", options.common().database,
              "Database [SWR_DB, else $XDG_DATA_HOME/swr/tuned.db, else "
              "~/.local/share/swr/tuned.db]",
              {.group = "Files"});
}

void add_templates_option(OptionList& options) {
  options.add("--templates DIR", options.common().templates,
              "Files here replace the built-in templates of the same path [SWR_TEMPLATE_DIR]",
              {.group = "Files"});
}

void add_generator_options(OptionList& options) {
  options.add("--cache-dir DIR", options.common().cache_dir,
              "Cubin cache [SWR_CACHE_DIR, else $XDG_CACHE_HOME/swr, else ~/.cache/swr]",
              {.group = "Files"});
  options.add("--shared-cache", options.common().shared_cache,
              "Take kernels that others of the cache's group have stored", {.group = "Files"});
  add_templates_option(options);
}

void add_l2_option(OptionList& options, const char* help) {
  L2State& state = options.common().l2_state;
  options.add_call("--l2 STATE",
                   [&state](const std::string& text) { state = parse_l2_state(text); }, help,
                   {.group = "Measuring", .usual = "warm"});
}

void add_objective_option(OptionList& options, std::string& objective, const char* help) {
  options.add("--objective WHAT", objective, help, {.group = "Objective"});
}

void add_json_option(OptionList& options) {
  options.add("--json", options.common().json, "One JSON document on stdout instead of text",
              {.group = "Output"});
}

void add_quiet_option(OptionList& options) {
  options.add("--quiet", options.common().quiet, "No progress", {.group = "Output"});
}

void add_port_option(OptionList& options, int& port) {
  options.add("--port N", port, "Port of the live view; 0 takes one that is free",
              {.group = "Live view", .shows_usual = true, .at_least = 0, .at_most = 65535});
}

const Operation* kernel_called(const std::string& name) {
  for (const Operation* const operation : operations()) {
    const bool is_called = operation->name() == name || operation->given_name() == name;
    if (is_called && !operation->source_digest().empty()) {
      return operation;
    }
  }
  return nullptr;
}

void learn_stored_kernels(const Session& session, const std::string& op, Store::Content content) {
  const std::filesystem::path database = database_path(session);
  if (find_operation_or_null(op) == nullptr && std::filesystem::exists(database)) {
    const Store store(database, Store::Mode::read_only, content);
  }
}

const Operation* take_kernel(const Session& session, ProblemText& text) {
  const Operation* const kernel =
      session.kernels.empty() ? kernel_called(text.op) : session.kernels.front();
  if (kernel == nullptr) {
    if (!text.sizes.empty()) {
      reject("--arg needs --spec FILE, or --op with a kernel that the database has");
    }
    return nullptr;
  }
  text.op = std::string(kernel->name());
  for (const std::string& size : text.sizes) {
    const auto [name, values] = named_values(size, "--arg");
    if (find_field(*kernel, name) == nullptr) {
      reject("--arg: the kernel has no size '" + name + "'; its sizes are " +
             names_of(kernel->fields()));
    }
    text.given[name] = values;
  }
  return kernel;
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

void add_axis_options(OptionList& options, SpaceText& space) {
  const std::string group = "Axes";
  options.add("--tile MxN[xWARPS]", space.tiles,
              "Rows x columns of the tile, and warps if wanted: 64x64,128x64,80x80x5",
              {.group = group});
  for (const Operation* const operation : operations_of_swr()) {
    const bool is_first = operation == operations().front();
    for (const Axis& axis : axes(*operation)) {
      std::string& values = space.axis_values[std::string(axis.name)];
      const std::string name = option_name(axis.name);
      if (!is_tile_axis(axis.name) && !options.has(name)) {
        options.add(name + " LIST", values, axis_help(axis),
                    {.group = is_first ? group
                                       : group + " of --op " + std::string(name_of(*operation)) +
                                             " alone"});
      }
    }
  }
}

Tile parse_tile(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 2 && parts.size() != 3) {
    reject("--tile '" + text + "' is not of the form MxN or MxNxWARPS, e.g. 128x64");
  }
  Tile tile{.tile_m = whole_number(parts[0], "--tile"), .tile_n = whole_number(parts[1], "--tile")};
  if (parts.size() == 3) {
    tile.warps = whole_number(parts[2], "--tile");
    if (tile.warps == 0) {
      reject("--tile '" + text + "' has no warps; leave the third number out for the usual ones");
    }
  }
  return tile;
}

SpaceOptions space_options(const SpaceText& text) {
  SpaceOptions space;
  if (!text.tiles.empty()) {
    for (const std::string& part : split(text.tiles, ',')) {
      space.tiles.push_back(parse_tile(part));
    }
  }
  for (const auto& [axis_name, listed] : text.axis_values) {
    if (listed.empty()) {
      continue;
    }
    for (std::string& value : split(listed, ',')) {
      space.restrictions[axis_name].emplace_back(std::move(value));
    }
  }
  return space;
}

}  // namespace swr::cli
