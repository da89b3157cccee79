// SPDX-License-Identifier: MIT
// A self-contained HTML page over a JSON document: styles, script, the chart library and its
// licence are inside, and nothing is fetched from anywhere.
#pragma once

#include "core/json.h"

#include <string>

namespace swr {

/// The page over what page_data() gives. Text of the document cannot leave its place: the page
/// builds every element from it as text.
std::string render_page(const Json& data);

/// The page that shows a run while it goes on: it asks for `state`, beside itself, once a second.
std::string render_live_page();

}  // namespace swr
