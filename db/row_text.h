// SPDX-License-Identifier: MIT
// Problems and variants of any operation as the text that their rows hold: JSON objects with the
// operation's fields and axes in declared order (docs/db_schema.md).
#pragma once

#include "core/json.h"
#include <swr/problem.h>
#include <swr/variant.h>

#include <string>
#include <string_view>

namespace swr {

// Require: a valid problem; a variant whose axes have values of theirs.
/// The fields that no size makes up for.
std::string kind_text(const Problem& problem);
/// The fields that may differ between neighbours.
std::string sizes_text(const Problem& problem);
/// The axes of the variant's family. Of fields and axes, one that came later is left out where it
/// has its default, so that rows from before it came say what rows of today say.
std::string axes_text(const Variant& variant);

/// What a text says. Rows that swr wrote are canonical: equal values have equal text.
template <typename Value>
struct FromText {
  Value value;
  bool is_canonical = true;
};

// The inverse; members may come in any order.
// Throw: Error naming the value that cannot be believed.
FromText<Problem> problem_from_text(const Operation& operation, std::string_view kind,
                                    std::string_view sizes);
FromText<Variant> variant_from_text(const Operation& operation, std::string_view axes);

// The same of objects; other members than the operation's are refused.
Problem problem_from_members(const Operation& operation, const Json& kind, const Json& sizes);
Variant variant_from_members(const Operation& operation, const Json& axes);

}  // namespace swr
