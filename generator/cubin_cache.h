// SPDX-License-Identifier: MIT
// Compiled kernels on disk, addressed by the digest of everything that went into them.
//
//   DIR/entries/KEY.json      entry function, architecture, resources, digest of the cubin
//   DIR/cubins/DIGEST.cubin   the cubin, named by its own digest
//   DIR/locks/NN              lets one process compile a key while the others wait for it
//
// A cubin is in place before the entry that names it, and both appear by rename, so readers never
// see a part. An entry or cubin that does not match its digest counts as absent and is replaced,
// and so does one that is a link or, unless the cache is shared, another user's.
#pragma once

#include "core/files.h"
#include <swr/kernel.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace swr {

/// Digests are stored beside what they guard, so who can write to a cache can vouch for anything. A
/// directory that is not there holds nothing to believe and is no error.
/// Throws: Error{unreadable} when others than those of `sharing` can change the directory, or its
/// folders are links.
void require_trusted_cache(const std::filesystem::path& directory, Sharing sharing);

/// The intact cubin with this digest in a cache directory, whatever it was compiled from; empty
/// when there is none. Needs no compiler and writes nothing.
/// Throws: as require_trusted_cache().
std::optional<std::vector<std::byte>> read_cached_cubin(const std::filesystem::path& directory,
                                                        const std::string& digest, Sharing sharing);

/// Thread-safe; any number of processes may share a directory.
class CubinCache {
 public:
  /// Creates the directory when missing, for this user alone unless it is shared.
  /// Throws: Error{not_writable} when it cannot be created or written; as require_trusted_cache().
  explicit CubinCache(std::filesystem::path directory, Sharing sharing = Sharing::none);

  /// The intact kernel stored under `key`.
  std::optional<CompiledKernel> find(const std::string& key) const;

  /// Stores a kernel under its source_digest. Throws: Error{not_writable}.
  void store(const CompiledKernel& kernel) const;

  /// The stored kernel, or what `compile` returns, which is then stored. Of several callers that
  /// miss the same key one compiles and the others wait for its result.
  CompiledKernel find_or_compile(const std::string& key,
                                 const std::function<CompiledKernel()>& compile) const;

 private:
  std::filesystem::path entry_path(const std::string& key) const;
  std::filesystem::path cubin_path(const std::string& digest) const;

  std::filesystem::path directory_;
  Sharing sharing_;
};

}  // namespace swr
