// SPDX-License-Identifier: MIT
// A small database for the targets that ask one: equal bytes in every process.
#pragma once

#include <string>

namespace swr::fuzz {

/// The bytes of a database of this schema, all of fictional_gpu(), with results of both operations,
/// finals and references.
const std::string& stored_database();

}  // namespace swr::fuzz
