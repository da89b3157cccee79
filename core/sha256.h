// SPDX-License-Identifier: MIT
// Content digests of cubins and sources.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace swr {

/// SHA-256 in lower-case hex, 64 characters.
std::string sha256_hex(std::span<const std::byte> data);
std::string sha256_hex(std::string_view text);

}  // namespace swr
