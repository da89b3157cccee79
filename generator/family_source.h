// SPDX-License-Identifier: MIT
// Where the kernel of each family lies among the templates.
#pragma once

#include <swr/variant.h>

#include <span>
#include <string_view>

namespace swr {

struct FamilySource {
  Family family;
  std::string_view file;   ///< Path of the .cu file below the template root.
  std::string_view entry;  ///< Its extern "C" function.
  int first_arch;          ///< Lowest architecture its instructions exist on.
};

std::span<const FamilySource> family_sources();

const FamilySource& family_source(Family family);

/// Name by which every kernel includes the configuration it is compiled for.
inline constexpr std::string_view kConfigHeader = "selected_attention_config.h";

}  // namespace swr
