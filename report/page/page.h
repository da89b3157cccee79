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

}  // namespace swr
