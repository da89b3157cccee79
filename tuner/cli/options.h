// SPDX-License-Identifier: MIT
// Options that several commands share (problem, axes, machine, database), each declared once, and
// what was typed as values.
#pragma once

#include "tuner/cli/command_line.h"
#include <swr/problem.h>
#include <swr/search_space.h>
#include <swr/store.h>

#include <map>
#include <string>
#include <vector>

namespace swr::cli {

/// The parts of a list; one empty part for an empty text.
std::vector<std::string> split(const std::string& text, char separator);

/// Throws: Error{invalid_argument} naming the option, for anything but a whole number of an int.
int whole_number(const std::string& text, const std::string& option);
/// The same of a list.
std::vector<int> whole_numbers(const std::string& text, const std::string& option);

/// "NAME=VALUES" as its two parts. Throws: Error{invalid_argument} naming the option.
std::pair<std::string, std::string> named_values(const std::string& text, const char* option);

/// The problem as it was typed; problems() turns it into values.
struct ProblemText {
  /// Of the first operation.
  ProblemText();

  std::string op;
  bool names_op = false;
  /// What was given, by the option without dashes.
  std::map<std::string, std::string> given;
  /// Sizes of a kernel of a user's: NAME=VALUE[,VALUE].
  std::vector<std::string> sizes;
};

/// Tiles and, by axis name, values, both separated by commas.
struct SpaceText {
  std::string tiles;
  std::map<std::string, std::string> axis_values;

  bool names_axes() const;
};

/// What a kernel depends on, without the sizes.
void add_kernel_options(OptionList& options, ProblemText& problem);
/// The whole problem; problems() says what is missing. `list_help` says what a list of sizes does.
void add_problem_options(OptionList& options, ProblemText& problem, const char* list_help);
/// --spec, for commands that read or write results of users' kernels.
void add_spec_option(OptionList& options);
/// --spec and --arg, for commands that ask about users' kernels.
void add_spec_options(OptionList& options, ProblemText& problem);
/// --tile and one option per axis.
void add_axis_options(OptionList& options, SpaceText& space);
CLI::Option* add_gpu_option(OptionList& options, std::string& gpu);
void add_database_option(OptionList& options);
void add_templates_option(OptionList& options);
/// Cubin cache and templates.
void add_generator_options(OptionList& options);
void add_l2_option(
    OptionList& options,
    const char* help = "Ask for results that were measured with such an L2: warm or cold");
void add_objective_option(OptionList& options, std::string& objective, const char* help);
void add_json_option(OptionList& options);
void add_quiet_option(OptionList& options);
/// --port of the live view.
void add_port_option(OptionList& options, int& port);

/// One problem per sequence length. Throws: Error{invalid_argument} naming the option.
std::vector<Problem> problems(const ProblemText& text);

/// The lengths of the one option that was given as LOW..HIGH, in ascending order; none without such
/// an option. problems() takes them as a list. Throws: as problems().
std::vector<int> asked_range(const ProblemText& text);

/// A problem with these kind fields, whose sizes forbid no choice. Throws: as problems().
Problem kernel_problem(const ProblemText& text);

/// The options that ask for the same problem again, each after a space.
std::string problem_arguments(const Problem& problem);

/// Where `op` is no operation of swr it may be a kernel that the database has: reads its kernels.
void learn_stored_kernels(const Session& session, const std::string& op,
                          Store::Content content = Store::Content::tuned);

/// "width, height"; "none" without any.
std::string names_of(const auto& fields) {
  std::string names;
  for (const Field& field : fields) {
    names.append(names.empty() ? "" : ", ").append(field.name);
  }
  return names.empty() ? "none" : names;
}

/// A kernel by its operation's name or by what its user calls it; nullptr where none is known. Of
/// several versions the one that was known first, which is a database's newest.
const Operation* kernel_called(const std::string& name);

/// Has the kernel of --spec, else the stored one that --op names, take the place of --op with the
/// sizes of --arg. Returns it, or nullptr. Throws: Error{invalid_argument} naming the option.
const Operation* take_kernel(const Session& session, ProblemText& text);

/// The tiles and axis values asked for. Throws: Error{invalid_argument} naming the option.
SpaceOptions space_options(const SpaceText& text);

/// "128x64" or "128x64x4". Without warps each family takes its usual number.
/// Throws: Error{invalid_argument}.
Tile parse_tile(const std::string& text);

}  // namespace swr::cli
