// SPDX-License-Identifier: MIT
// Compiled kernels on disk, addressed by the digest of everything that went into them.
//
//   DIR/entries/KEY.json      entry function, architecture, resources, digest of the cubin
//   DIR/cubins/DIGEST.cubin   the cubin, named by its own digest
//   DIR/locks/NN              lets one process compile a key while the others wait for it
//
// A cubin is in place before the entry that names it, and both appear by rename, so readers never
// see a part. An entry or cubin that does not match its digest counts as absent and is replaced.
#pragma once

#include <swr/kernel.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace swr {

/// The intact cubin with this digest in a cache directory, whatever it was compiled from; empty
/// when there is none. Needs no compiler and writes nothing.
/// Throws: Error{unreadable} when other users can change the directory.
std::optional<std::vector<std::byte>> read_cached_cubin(const std::filesystem::path& directory,
                                                        const std::string& digest);

/// Thread-safe; any number of processes may share a directory.
class CubinCache {
 public:
  /// Creates the directory when missing.
  /// Throws: Error{not_writable} when it cannot be created or written; Error{unreadable} when
  /// other users can change it.
  explicit CubinCache(std::filesystem::path directory);

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
};

}  // namespace swr
