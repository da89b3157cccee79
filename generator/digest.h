// SPDX-License-Identifier: MIT
// One digest over several texts.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace swr {

/// SHA-256 over the fields, each preceded by its length, so that text moved from one field to the
/// next changes the digest.
std::string digest_of_fields(std::span<const std::string_view> fields);

}  // namespace swr
