// SPDX-License-Identifier: MIT
// swr-tune completion and the manual page.
#include "tuner/cli/commands.h"
#include "tuner/cli/completion.h"
#include <swr/version.h>

#include <ostream>

namespace swr::cli {

int run_completion(const Session& session) {
  const CommandNode program = command_tree();
  const std::string& shell = session.options.shell;
  session.out << (shell == "zsh"    ? zsh_completion(program)
                  : shell == "fish" ? fish_completion(program)
                                    : bash_completion(program));
  return kExitSuccess;
}

int run_man_page(const Session& session) {
  session.out << man_page(command_tree(), SWR_VERSION);
  return kExitSuccess;
}

}  // namespace swr::cli
