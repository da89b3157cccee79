// SPDX-License-Identifier: MIT
// The one reader of JSON and CBOR that come from outside the process. It counts before it builds,
// so that no input costs more memory, time or stack than the limits allow.
#pragma once

#include "core/json.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace swr {

/// What a document may hold at most; every document of swr, and every model's configuration, is far
/// below. Reading takes time in proportion to the bytes, but for sorting the keys of each object.
struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 28;
  std::size_t values = std::size_t{1} << 24;  ///< Of all kinds, and keys.
  std::size_t depth = 64;                     ///< Lists and objects within each other.
  std::size_t keys = std::size_t{1} << 16;    ///< Of one object.
};

/// `name` says in errors what the text is, such as the path of its file. Keys keep their order; a
/// key that is there twice is refused, as readers differ in which they take.
/// Throws: Error{unreadable} naming what is wrong, or the limit.
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});
/// The same of the binary form.
Json parse_cbor(std::string_view bytes, const std::string& name, const JsonLimits& limits = {});

/// parse_json() of read_regular_file().
Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace swr
