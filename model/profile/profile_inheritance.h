// SPDX-License-Identifier: MIT
// A GPU profile that states only what differs from another one.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace swr {

/// The document of the built-in profile of an id; no object where there is none.
using FindProfile = std::function<nlohmann::json(std::string_view id)>;

/// The fields of a profile (an object) with those of the profile that its field "inherits" names,
/// and so on up. What the profile states comes first; null says that a field is not known of this
/// chip. What holds for one card alone is taken over for its like only: "code_factors" by the same
/// sm_arch, "l2_sets" by the same sm_count. The sources of fields that were taken over say so.
/// Throws: Error{unreadable} naming the file where a name is unknown or profiles inherit in a
/// circle.
nlohmann::json with_inherited_fields(const std::string& file, const nlohmann::json& document,
                                     const FindProfile& find);

}  // namespace swr
