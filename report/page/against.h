// SPDX-License-Identifier: MIT
// Two databases side by side: what got faster, what slower, and with which variant.
#pragma once

#include "core/json.h"

namespace swr {

/// Of two documents of page_data(): {"database", "pairs": [{"title", "provenance", "l2_state",
/// "label", "time_us", "before_label", "before_us"}], "only_here", "only_there"}. A pair is one
/// problem on equal devices, of one provenance, state of L2 and set of templates; the one that
/// changed most for the worse comes first.
Json against(const Json& here, const Json& there);

}  // namespace swr
