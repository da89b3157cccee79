// SPDX-License-Identifier: MIT
// Names of headers in CUDA C++. NVRTC finds a header that it is handed by what stands in the
// directive alone, whichever file includes it; so directives are given the path of what they mean.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

struct HeaderName {
  std::string_view text;
  bool is_quoted = false;  ///< "name" rather than <name>.
  bool is_next = false;    ///< Of #include_next.
};

/// The text with other names. `path_of` is asked for each that a line with a # may have, in
/// comments and branches that are never taken too, and keeps a name by an empty answer. It is no
/// lexer: what it takes for a name is one only where a file has it. Of a text with more than 65,536
/// quotes and angles in such lines, the rest stays as it is.
std::string with_header_paths(std::string_view text,
                              const std::function<std::string(const HeaderName&)>& path_of);

/// Where compilers look: beside the including file for a quoted name, in the common folder, in
/// `folders`; of #include_next, in the folders behind the one that the including file has its name
/// from. Paths below the common folder; what would leave it is left out.
std::vector<std::string> header_places(const HeaderName& name, std::string_view includer,
                                       std::span<const std::string> folders = {});

/// In the text of a program of a user, the lines from here to the first #line define parameters.
inline constexpr std::string_view kParametersBegin = "#define kernel_tuner 1\n";

}  // namespace swr
