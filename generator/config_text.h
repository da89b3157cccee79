// SPDX-License-Identifier: MIT
// The only text that is generated of a kernel: the header with its compile-time configuration.
#pragma once

#include <string>
#include <string_view>

namespace swr {

/// One designated initialiser on a line of its own.
inline std::string config_field(std::string_view name, const std::string& value) {
  return "    ." + std::string(name) + " = " + value + ",\n";
}

/// The header that defines swr::kConfig of type `type`, which `include` declares, in the form of
/// those in templates/default/.
inline std::string config_header(std::string_view include, std::string_view type,
                                 const std::string& fields) {
  return std::string(R"(// SPDX-License-Identifier: MIT
// The configuration of one variant, written by swr's generator; do not edit.
#pragma once

#include ")") +
         std::string(include) + R"("

namespace swr {

inline constexpr )" +
         std::string(type) + R"( kConfig{
)" + fields +
         R"(};

}  // namespace swr
)";
}

}  // namespace swr
