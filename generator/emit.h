// SPDX-License-Identifier: MIT
// The only text the generator writes: the configuration header of a variant, and a kernel with all
// its includes in one file.
#pragma once

#include "generator/template_set.h"
#include "templates/attention/config.h"

#include <string>
#include <string_view>

namespace swr {

/// The header that defines swr::kConfig, in the form of
/// templates/default/selected_attention_config.h.
std::string attention_config_header(const AttentionConfig& config);

/// `entry` with every template it includes in place of its first #include line; later ones are
/// dropped, as #pragma once would. The result needs no include path.
std::string flatten_template(const TemplateSet& templates, std::string_view entry);

}  // namespace swr
