// SPDX-License-Identifier: MIT
// What a shell needs to complete the command lines of swr-tune, and its manual page: text that
// follows from the commands and options alone.
#include "tuner/cli/commands.h"
#include <swr/version.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <vector>

namespace swr::cli {
namespace {

constexpr const char* kDefaultCommand = "tune";

/// Called for every command that does something, with its name as typed: "tune", "db merge".
using Visit = std::function<void(const CommandNode&, const std::string& name)>;

void visit_commands(const CommandNode& node, const std::string& prefix, const Visit& visit) {
  for (const CommandNode& command : node.commands) {
    const std::string name = prefix + command.name;
    if (command.commands.empty()) {
      visit(command, name);
    } else {
      visit_commands(command, name + " ", visit);
    }
  }
}

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : separator) + word;
  }
  return text;
}

std::vector<std::string> command_names(const CommandNode& node) {
  std::vector<std::string> names;
  for (const CommandNode& command : node.commands) {
    names.push_back(command.name);
  }
  return names;
}

std::vector<std::string> option_names(const CommandNode& command) {
  std::vector<std::string> names;
  for (const OptionNode& option : command.options) {
    if (!option.is_positional) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
  }
  return names;
}

std::string replaced(std::string text, char from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, 1, to);
  }
  return text;
}

bool takes_directory(const OptionNode& option) { return option.type == "DIR"; }
bool takes_file(const OptionNode& option) { return option.type.starts_with("FILE"); }

// ---- bash

/// Lines of a case statement over "command option": what its value may be.
std::string bash_values(const CommandNode& command, const std::string& name) {
  std::string text;
  for (const OptionNode& option : command.options) {
    if (!option.takes_value || option.is_positional) {
      continue;
    }
    std::vector<std::string> patterns;
    for (const std::string& one : option.names) {
      patterns.push_back("'" + name + " " + one + "'");
    }
    const std::string action = !option.values.empty() ? "words='" + joined(option.values, " ") + "'"
                               : takes_directory(option) ? "kind=directory"
                               : takes_file(option)      ? "kind=file"
                                                         : "kind=none";
    text += "    " + joined(patterns, "|") + ") " + action + " ;;\n";
  }
  return text;
}

std::vector<std::string> positional_values(const CommandNode& command) {
  for (const OptionNode& option : command.options) {
    if (option.is_positional) {
      return option.values;
    }
  }
  return {};
}

std::string bash_completion(const CommandNode& program) {
  std::string values;
  std::string options;
  visit_commands(program, "", [&](const CommandNode& command, const std::string& name) {
    values += bash_values(command, name);
    const auto more = positional_values(command);
    options += "    '" + name + "') words='" + joined(option_names(command), " ") +
               (more.empty() ? "" : " " + joined(more, " ")) + "' ;;\n";
  });
  std::string inner;
  std::string inner_names;
  for (const CommandNode& command : program.commands) {
    if (!command.commands.empty()) {
      inner +=
          "    '" + command.name + "') words='" + joined(command_names(command), " ") + "' ;;\n";
      inner_names += (inner_names.empty() ? "" : "|") + command.name;
    }
  }
  return "# Completion of swr-tune for bash; written by swr-tune completion bash.\n"
         "_swr_tune() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command=" +
         std::string(kDefaultCommand) +
         " words='' kind=''\n"
         "  if ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[1]} != -* ]]; then\n"
         "    command=${COMP_WORDS[1]}\n"
         "    if [[ $command == @(" +
         inner_names +
         ") ]] && ((COMP_CWORD > 2)); then\n"
         "      command+=\" ${COMP_WORDS[2]}\"\n"
         "    fi\n"
         "  fi\n"
         "  case \"$command $previous\" in\n" +
         values +
         "  esac\n"
         "  if [[ -z $words$kind ]]; then\n"
         "    case \"$command\" in\n" +
         options + inner +
         "    esac\n"
         "    ((COMP_CWORD > 1)) || words+=' " +
         joined(command_names(program), " ") +
         " --version'\n"
         "  fi\n"
         "  COMPREPLY=()\n"
         "  case \"$kind\" in\n"
         "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); compopt -o filenames "
         "2>/dev/null ;;\n"
         "    directory) mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); compopt -o "
         "filenames 2>/dev/null ;;\n"
         "    none) ;;\n"
         "    *) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\") ;;\n"
         "  esac\n"
         "}\n"
         "complete -F _swr_tune swr-tune\n";
}

// ---- zsh

/// Of a description inside the specifications of _arguments and _describe.
std::string zsh_quoted(const std::string& text) {
  std::string quoted = replaced(text, '\\', "\\\\");
  for (const char special : {'[', ']', ':'}) {
    quoted = replaced(quoted, special, std::string("\\") + special);
  }
  return replaced(quoted, '\'', "'\\''");
}

std::string zsh_value(const OptionNode& option) {
  if (!option.takes_value) {
    return "";
  }
  const std::string what = zsh_quoted(option.type.empty() ? "value" : option.type);
  if (!option.values.empty()) {
    return ":" + what + ":(" + joined(option.values, " ") + ")";
  }
  return ":" + what + ":" +
         (takes_directory(option) ? "_files -/"
          : takes_file(option)    ? "_files"
                                  : "");
}

std::string zsh_arguments(const CommandNode& command) {
  std::string text = "_arguments -s";
  for (const OptionNode& option : command.options) {
    for (const std::string& name : option.names) {
      text += option.is_positional ? " \\\n        '1" + zsh_value(option) + "'"
                                   : " \\\n        '" + name + "[" + zsh_quoted(option.meaning) +
                                         "]" + zsh_value(option) + "'";
    }
  }
  return text;
}

std::string zsh_list(const CommandNode& node) {
  std::string text;
  for (const CommandNode& command : node.commands) {
    text += " \\\n    '" + command.name + ":" + zsh_quoted(command.meaning) + "'";
  }
  return text;
}

std::string zsh_completion(const CommandNode& program) {
  std::string cases;
  visit_commands(program, "", [&](const CommandNode& command, const std::string& name) {
    cases += "    '" + name + "')\n      " + zsh_arguments(command) + " ;;\n";
  });
  std::string inner;
  for (const CommandNode& command : program.commands) {
    if (!command.commands.empty()) {
      inner += "    " + command.name +
               ")\n"
               "      if ((CURRENT == 3)); then\n"
               "        commands=(" +
               zsh_list(command) +
               ")\n"
               "        _describe command commands; return\n"
               "      fi\n"
               "      command+=\" $words[3]\"; words=(\"$words[1]\" \"${(@)words[4,-1]}\")\n"
               "      ((CURRENT -= 2)) ;;\n";
    }
  }
  return "#compdef swr-tune\n"
         "# Completion of swr-tune for zsh; written by swr-tune completion zsh.\n"
         "_swr-tune() {\n"
         "  local command=''\n"
         "  local -a commands\n"
         "  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
         "    commands=(" +
         zsh_list(program) +
         ")\n"
         "    _describe command commands; return\n"
         "  fi\n"
         "  [[ $words[2] == -* ]] || command=$words[2]\n"
         "  case \"$command\" in\n" +
         inner + "    '') command=" + std::string(kDefaultCommand) +
         " ;;\n"
         "    *) words=(\"$words[1]\" \"${(@)words[3,-1]}\"); ((CURRENT -= 1)) ;;\n"
         "  esac\n"
         "  case \"$command\" in\n" +
         cases +
         "  esac\n"
         "}\n"
         "_swr-tune \"$@\"\n";
}

// ---- fish

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, '\\', "\\\\"), '\'', "\\'") + "'";
}

/// True where the command, or for the default one no other, was typed.
std::string fish_condition(const CommandNode& program, const std::string& name) {
  if (name == kDefaultCommand) {
    std::vector<std::string> others = command_names(program);
    std::erase(others, kDefaultCommand);
    return "not __fish_seen_subcommand_from " + joined(others, " ");
  }
  const std::size_t space = name.find(' ');
  return space == name.npos ? "__fish_seen_subcommand_from " + name
                            : "__fish_seen_subcommand_from " + name.substr(0, space) +
                                  "; and __fish_seen_subcommand_from " + name.substr(space + 1);
}

std::string fish_option(const OptionNode& option, const std::string& condition) {
  std::string text = "complete -c swr-tune -n " + fish_quoted(condition);
  for (const std::string& name : option.names) {
    text += option.is_positional     ? ""
            : name.starts_with("--") ? " -l " + name.substr(2)
                                     : " -s " + name.substr(1);
  }
  if (!option.values.empty()) {
    text += std::string(option.is_positional ? "" : " -x") + " -a " +
            fish_quoted(joined(option.values, " "));
  } else if (takes_directory(option)) {
    text += " -x -a '(__fish_complete_directories)'";
  } else if (option.takes_value) {
    text += takes_file(option) ? " -r -F" : " -x";
  }
  return text + " -d " + fish_quoted(option.meaning) + "\n";
}

std::string fish_commands(const CommandNode& node, const std::string& condition) {
  std::string text;
  for (const CommandNode& command : node.commands) {
    text += "complete -c swr-tune -n " + fish_quoted(condition) + " -a " +
            fish_quoted(command.name) + " -d " + fish_quoted(command.meaning) + "\n";
  }
  return text;
}

std::string fish_completion(const CommandNode& program) {
  std::string text =
      "# Completion of swr-tune for fish; written by swr-tune completion fish.\n"
      "complete -c swr-tune -f\n" +
      fish_commands(program, "__fish_use_subcommand");
  for (const CommandNode& command : program.commands) {
    if (!command.commands.empty()) {
      text += fish_commands(command, "__fish_seen_subcommand_from " + command.name +
                                         "; and not __fish_seen_subcommand_from " +
                                         joined(command_names(command), " "));
    }
  }
  visit_commands(program, "", [&](const CommandNode& command, const std::string& name) {
    for (const OptionNode& option : command.options) {
      text += fish_option(option, fish_condition(program, name));
    }
  });
  return text;
}

// ---- man

/// A text in roff: no character of it begins a request or an escape.
std::string roff(const std::string& text) {
  std::string escaped = replaced(text, '\\', "\\e");
  escaped = replaced(escaped, '-', "\\-");
  std::string lines;
  bool is_line_start = true;
  for (const char c : escaped) {
    lines += is_line_start && (c == '.' || c == '\'') ? "\\&" : "";
    lines += c;
    is_line_start = c == '\n';
  }
  return lines;
}

std::string roff_option(const OptionNode& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "" : ", ") + ("\\fB" + roff(name) + "\\fR");
  }
  const std::string type =
      option.is_positional || option.type.empty() ? "" : " \\fI" + roff(option.type) + "\\fR";
  return ".TP\n" + names + type + "\n" + roff(option.meaning) +
         (option.usual.empty() ? "" : " [" + roff(option.usual) + "]") +
         (option.is_required ? " (required)" : "") + "\n";
}

/// Examples keep their lines; other lines are text.
std::string roff_footer(const std::string& footer) {
  return footer.empty() ? "" : ".PP\n.nf\n" + roff(footer) + "\n.fi\n";
}

std::string roff_options(const CommandNode& command) {
  std::vector<std::string> groups;
  for (const OptionNode& option : command.options) {
    if (std::ranges::find(groups, option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  std::string text;
  for (const std::string& group : groups) {
    text += ".PP\n" + roff(group) + ":\n";
    for (const OptionNode& option : command.options) {
      text += option.group == group ? roff_option(option) : "";
    }
  }
  return text;
}

std::string man_page(const CommandNode& program, const std::string& version) {
  std::string text = ".TH SWR\\-TUNE 1 \"\" \"swr " + roff(version) +
                     "\" \"User Commands\"\n"
                     ".SH NAME\nswr\\-tune \\- tune kernels for NVIDIA GPUs\n"
                     ".SH SYNOPSIS\n.B swr\\-tune\n[\\fIcommand\\fR] [\\fIoptions\\fR]\n"
                     ".SH DESCRIPTION\n" +
                     roff(program.meaning) + "\n" + roff_footer(program.footer) + ".SH COMMANDS\n";
  visit_commands(program, "", [&](const CommandNode& command, const std::string& name) {
    text += ".SS swr\\-tune " + roff(name) + "\n" + roff(command.meaning) + ".\n" +
            roff_options(command) + roff_footer(command.footer);
  });
  return text;
}

struct CompletionArguments {
  std::string shell;
};

int run_completion(const Session& session, const CompletionArguments& asked) {
  const CommandNode program = command_tree();
  session.out << (asked.shell == "zsh"    ? zsh_completion(program)
                  : asked.shell == "fish" ? fish_completion(program)
                                          : bash_completion(program));
  return kExitSuccess;
}

struct ManPageArguments {};

int run_man_page(const Session& session, const ManPageArguments& /*asked*/) {
  session.out << man_page(command_tree(), SWR_VERSION);
  return kExitSuccess;
}

}  // namespace

void add_completion(CommandLine& line) {
  auto [options, asked] = line.add<CompletionArguments>(
      {.name = "completion",
       .meaning = "Print the completion script for a shell: bash, zsh or fish",
       .footer =
           "Examples:\n"
           "  swr-tune completion bash > ~/.local/share/bash-completion/completions/swr-tune\n"
           "  swr-tune completion zsh > ~/.zfunc/_swr-tune    (with ~/.zfunc in fpath)\n"
           "  swr-tune completion fish > ~/.config/fish/completions/swr-tune.fish",
       .group = "GPUs and this machine"},
      run_completion);
  options.add("shell", asked.shell, "bash, zsh or fish",
              {.is_required = true, .words = {"bash", "zsh", "fish"}});
  line.add<ManPageArguments>(
      {.name = "man-page", .meaning = "Print the manual page", .is_hidden = true}, run_man_page);
}

}  // namespace swr::cli
