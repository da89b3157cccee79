// SPDX-License-Identifier: MIT
// Ctrl-C ends a tuning run after the variant in hand; a second one ends the program at once.
#pragma once

namespace swr::cli {

/// Installs the handler for SIGINT. Once per process.
void catch_interrupt();

/// True after SIGINT arrived.
bool interrupted();

}  // namespace swr::cli
