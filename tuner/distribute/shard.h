// SPDX-License-Identifier: MIT
// A part of the work for each of several workers that know nothing of each other but their number.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace swr {

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
