// SPDX-License-Identifier: MIT
// The commands and their options as values, read from what parses them: so that completion, manual
// page and suggestions say what the program takes, and nothing else.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace swr::cli {

struct OptionNode {
  /// "--seq", or "-h" and "--help"; the bare name of a positional.
  std::vector<std::string> names;
  bool is_positional = false;
  bool takes_value = false;
  bool is_required = false;
  std::string type;     ///< FILE, DIR, N[,N]; empty for a flag.
  std::string meaning;  ///< One sentence.
  std::string usual;    ///< What it is when it is not given; empty where there is nothing to say.
  std::string group;
  /// What it takes, where that is a list of words.
  std::vector<std::string> values;
};

struct CommandNode {
  std::string name;
  std::string meaning;
  std::string group;
  std::string footer;  ///< Remarks and examples, in lines.
  std::vector<OptionNode> options;
  std::vector<CommandNode> commands;
};

/// Of an App and everything below it, in the order in which it was added; what is hidden from the
/// help is left out.
CommandNode command_node(const CLI::App& app);

/// The whole program.
CommandNode command_tree();

}  // namespace swr::cli
