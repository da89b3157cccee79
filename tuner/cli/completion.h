// SPDX-License-Identifier: MIT
// What a shell needs to complete the program's command lines, and its manual page: text that
// follows from the commands and options alone.
#pragma once

#include "tuner/cli/options/command_tree.h"

#include <string>

namespace swr::cli {

/// Scripts for `complete -F`, for a file _swr-tune in fpath, and for fish. Options without a
/// command are completed as tune's.
std::string bash_completion(const CommandNode& program);
std::string zsh_completion(const CommandNode& program);
std::string fish_completion(const CommandNode& program);

/// swr-tune.1, in man(7) macros: every command with its options by group.
std::string man_page(const CommandNode& program, const std::string& version);

}  // namespace swr::cli
