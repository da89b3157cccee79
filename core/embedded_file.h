// SPDX-License-Identifier: MIT
// A file compiled into the library by swr_embed_files (cmake/SwrEmbedFiles.cmake).
#pragma once

#include <span>
#include <string_view>

namespace swr {

struct EmbeddedFile {
  std::string_view path;  ///< Relative to the folder it was embedded from.
  std::string_view text;
};

}  // namespace swr
