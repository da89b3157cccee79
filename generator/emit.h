// SPDX-License-Identifier: MIT
// The only text the generator writes: the configuration header of a variant, and a kernel with all
// its includes in one file.
#pragma once

#include "generator/template_set.h"
#include "templates/attention/config.h"
#include "templates/attention/hopper/config.h"
#include "templates/gemm/hopper/config.h"
#include "templates/gemm/portable/config.h"

#include <string>
#include <string_view>

namespace swr {

/// The header that defines swr::kConfig, in the form of those in templates/default/.
std::string config_header(const PortableAttentionConfig& config);
std::string config_header(const HopperAttentionConfig& config);
std::string config_header(const HopperGemmConfig& config);
std::string config_header(const PortableGemmConfig& config);

/// `entry` with every template it includes in place of its first #include line; later ones are
/// dropped, as #pragma once would. The result needs no include path.
std::string flatten_template(const TemplateSet& templates, std::string_view entry);

}  // namespace swr
