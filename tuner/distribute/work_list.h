// SPDX-License-Identifier: MIT
// A list of problems as a file: made from shapes that a person wrote or from a model's
// configuration.
#pragma once

#include "core/make_problems.h"
#include <swr/problem.h>

#include <cstddef>
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

/// One of `count` workers, counted from 0.
struct Shard {
  int index = 0;
  int count = 1;

  bool is_everything() const { return count == 1; }
};

/// "3/8". Throws: Error{invalid_argument}.
Shard parse_shard(const std::string& text);
std::string to_string(const Shard& shard);

/// Which of the pieces of work, given by what identifies each, are the shard's: their places in
/// ascending order. Pieces are dealt in the order of a digest of their identity, so shares differ
/// by one at most, do not depend on the order of the list, and are the same on every host.
std::vector<std::size_t> share_of(const std::vector<std::string>& identities, const Shard& shard);

/// The worker's own database: "tuned.db" becomes "tuned.3-of-8.db", and a directory holds such
/// files. Without a division it is `path` itself, or tuned.db in the directory.
std::filesystem::path shard_database(const std::filesystem::path& path, const Shard& shard);

}  // namespace swr
