// SPDX-License-Identifier: MIT
// Text as the terminal of a session shows it: in lines that fit, with colours that mean something.
#pragma once

#include "tuner/cli/commands.h"

#include <functional>
#include <string>
#include <string_view>

namespace swr::cli {

/// Colours mean: green what was measured, yellow what was predicted, red what failed. Only whole
/// words are coloured, as they stand in the output of every command.
std::string paint(std::string_view text);

/// Colours text for standard output, unless that is no terminal or NO_COLOR says no.
std::string painted_for(const Environment& environment, std::string_view text);

/// Runs a command that writes prose: on a terminal its lines are broken to the width, and coloured.
/// JSON, and what goes to a file or a pipe, is passed on as it comes.
int run_shown(const Session& session, const std::function<int(const Session&)>& command);

/// "error:", red where standard error is a terminal with colours.
std::string error_label(const Environment& environment);

}  // namespace swr::cli
