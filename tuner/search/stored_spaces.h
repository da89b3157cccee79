// SPDX-License-Identifier: MIT
// Tuned spaces out of a database, in the form in which they are recorded and replayed.
#pragma once

#include "core/recorded_space.h"
#include <swr/store.h>

#include <filesystem>
#include <vector>

namespace swr {

/// One space per setting, problem and device of the store that has a success: the newest result of
/// every variant, measured ones where there are any. The origin is that of the fastest result.
std::vector<RecordedSpace> stored_spaces(const Store& store);

/// The spaces of a database, or those of a file of recorded spaces (a name that ends in .json or in
/// .spaces).
/// Throws: Error{not_found}, Error{unreadable}; Error{nothing_stored} for a database without any.
std::vector<RecordedSpace> load_spaces(const std::filesystem::path& path);

}  // namespace swr
