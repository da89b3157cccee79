// SPDX-License-Identifier: MIT
// The program swr-study: the experiments of a paper, measured on the GPU present or modelled for
// the named one, through the tuner and its database.
#pragma once

#include "tuner/cli/commands.h"

#include <iosfwd>
#include <span>
#include <string>

namespace swr::cli {

/// The whole program: parses, tunes, writes NAME.csv and NAME.md, reports an error in one line on
/// `err`; returns the exit code.
int run_study(std::span<const std::string> arguments, const Environment& environment,
              std::ostream& out, std::ostream& err);

}  // namespace swr::cli
