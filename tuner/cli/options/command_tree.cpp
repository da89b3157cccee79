// SPDX-License-Identifier: MIT
#include "tuner/cli/options/command_tree.h"

#include "core/operation.h"
#include "model/profile/gpu_profile.h"
#include "tuner/cli/options/text.h"
#include <swr/problem.h>
#include <swr/variant.h>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace swr::cli {
namespace {

/// CLI11 writes "TYPE:{a,b}" for an option that takes one of a list.
std::vector<std::string> words_in_braces(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == type.npos || end == type.npos) {
    return {};
  }
  return split(type.substr(begin + 1, end - begin - 1), ',');
}

std::vector<std::string> axis_values(const std::string& option_name) {
  std::string axis_name =
      option_name.substr(std::min(option_name.find_first_not_of('-'), option_name.size()));
  std::ranges::replace(axis_name, '-', '_');
  std::vector<std::string> values;
  for (const Operation* const operation : operations_of_swr()) {
    for (const Axis& axis : axes(*operation)) {
      for (const auto spelling :
           axis.name == axis_name ? axis.spellings : decltype(axis.spellings){}) {
        if (std::ranges::find(values, spelling) == values.end()) {
          values.emplace_back(spelling);
        }
      }
    }
  }
  return values;
}

std::vector<std::string> values_of(const CLI::Option& option, const OptionNode& node) {
  if (auto words = words_in_braces(option.get_type_name()); !words.empty()) {
    return words;
  }
  if (node.type == "GPU") {
    return profile_ids();
  }
  return node.takes_value ? axis_values(node.names.back()) : std::vector<std::string>{};
}

OptionNode option_node(const CLI::Option& option) {
  OptionNode node;
  node.is_positional = option.get_positional();
  for (const std::string& name : option.get_snames()) {
    node.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    node.names.push_back("--" + name);
  }
  if (node.names.empty()) {
    node.names.push_back(option.get_name(true));
  }
  node.takes_value = option.get_items_expected_max() > 0;
  node.is_required = option.get_required();
  const std::string type = node.takes_value ? option.get_type_name() : "";
  node.type = type.substr(0, type.find(':'));
  node.meaning = option.get_description();
  node.usual = option.get_default_str();
  node.group = option.get_group();
  node.values = values_of(option, node);
  return node;
}

}  // namespace

CommandNode command_node(const CLI::App& app) {
  CommandNode node{.name = app.get_name(),
                   .meaning = app.get_description(),
                   .group = app.get_group(),
                   .footer = app.get_footer(),
                   .options = {},
                   .commands = {}};
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_group().empty()) {
      node.options.push_back(option_node(*option));
    }
  }
  for (const CLI::App* const inner : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (inner->get_name().empty()) {
      // A group of options, which are the command's own.
      auto options = command_node(*inner).options;
      node.options.insert(node.options.end(), options.begin(), options.end());
    } else if (!inner->get_group().empty()) {
      node.commands.push_back(command_node(*inner));
    }
  }
  return node;
}

}  // namespace swr::cli
