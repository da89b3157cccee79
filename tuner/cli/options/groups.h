// SPDX-License-Identifier: MIT
// Options that several commands share, each declared once.
#pragma once

#include "tuner/cli/options.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace swr::cli {

/// CLI11's own range check would repeat the range in every line of the help.
CLI::Validator at_least(int low);

/// What a kernel depends on, without the sizes.
void add_kernel_options(CLI::App& app, ProblemText& problem);

/// The whole problem; problems() says what is missing. `list_help` says what a list of sizes does.
void add_problem_options(CLI::App& app, ProblemText& problem, const char* list_help);

/// --tile and one option per axis.
void add_axis_options(CLI::App& app, Options& options);

CLI::Option* add_gpu_option(CLI::App& app, Options& options);

void add_database_option(CLI::App& app, Options& options);

void add_templates_option(CLI::App& app, Options& options);

/// Cubin cache and templates.
void add_generator_options(CLI::App& app, Options& options);

/// Help of --l2 for commands that ask the database.
inline constexpr const char* kAskedL2 =
    "Ask for results that were measured with such an L2: warm or cold";

void add_l2_option(CLI::App& app, Options& options, const char* help);

/// --objective.
void add_objective_option(CLI::App& app, Options& options, const char* help);

void add_json_option(CLI::App& app, Options& options);

void add_quiet_option(CLI::App& app, Options& options);

/// --spec and --arg, for commands that ask about users' kernels.
void add_spec_options(CLI::App& app, Options& options);

/// --port of the live view.
void add_port_option(CLI::App& app, Options& options);

}  // namespace swr::cli
