// SPDX-License-Identifier: MIT
// A kernel with all its includes in one file.
#pragma once

#include "generator/template_set.h"

#include <string>
#include <string_view>

namespace swr {

/// `entry` with every template it includes in place of its first #include line; later ones are
/// dropped, as #pragma once would. The result needs no include path.
std::string flatten_template(const TemplateSet& templates, std::string_view entry);

}  // namespace swr
