// SPDX-License-Identifier: MIT
// A list of problems as a file: made from shapes that a person wrote or from a model's
// configuration.
#pragma once

#include "core/model_work.h"
#include <swr/problem.h>

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace swr {

/// Problems of a text file, one shape per line as `seq=4096 heads=32 kv-heads=8 causal` or
/// with `op=NAME` for other operations than the first (docs/cluster.md), or of a JSON file (.json)
/// with a list of objects of the same keys. A field that takes lists may have comma-separated
/// values. Throws: Error{not_found}; Error{invalid_argument} naming file, shape and key.
std::vector<Problem> read_shapes(const std::filesystem::path& path);

/// The problems of a model, of every operation that its config.json speaks of. Throws: as
/// read_shapes().
std::vector<Problem> read_model(const std::filesystem::path& path, const ModelWork& work);

/// Each problem once, in the order of the first.
std::vector<Problem> without_repeats(const std::vector<Problem>& problems);

void write_work_list(std::ostream& out, const std::vector<Problem>& problems);
/// Throws: Error{not_found}; Error{unreadable} naming the file and what is wrong in it.
std::vector<Problem> read_work_list(const std::filesystem::path& path);

}  // namespace swr
