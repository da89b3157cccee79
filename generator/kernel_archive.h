// SPDX-License-Identifier: MIT
// Kernels that ship in one file, so that no compiler stands in the way (docs/shipped_kernels.md).
//
//   header   magic, length of the file, length and SHA-256 of the index
//   index    blocks: where each lies; kernels by key: digest, place, resources; names
//   blocks   zstd frames, each of cubins of one architecture and operation
//
// A kernel's key is the digest of all that it is compiled from (KernelRecipe::digest()), but for
// the compiler's version: an archive of other templates has no kernel for these, and nothing that
// it has can pass for one. The index's digest covers those of all cubins, so it stands for the
// whole.
#pragma once

#include "core/files.h"
#include "generator/kernel_recipe.h"
#include <swr/kernel.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace swr {

inline constexpr const char* kKernelArchiveFile = "swr-kernels.bin";

/// What the index says of a kernel.
struct ArchivedKernel {
  std::string key;           ///< Hex.
  std::string cubin_digest;  ///< Hex.
  std::string name;          ///< Operation and family, for people.
  int sm_arch = 0;
  KernelResources resources;
  std::uint32_t block = 0;
  std::uint32_t offset = 0;  ///< In the block.
  std::uint32_t bytes = 0;
};

/// Immutable; any number of threads may ask at once.
class KernelArchive {
 public:
  /// Throws: Error{not_found}; Error{unreadable} for a file that is none, is cut, or whose index
  /// has another digest than it says.
  explicit KernelArchive(const std::filesystem::path& file);

  /// Empty when the archive has no such kernel.
  /// Throws: Error{unreadable} when what it has does not match its digest.
  std::optional<CompiledKernel> find(const KernelRecipe& recipe) const;

  /// The cubin of one that is listed. Throws: as find().
  std::vector<std::byte> cubin(const ArchivedKernel& kernel) const;

  const std::filesystem::path& path() const { return path_; }
  /// SHA-256 of the index, in hex.
  const std::string& digest() const { return digest_; }
  /// In the order of their keys.
  const std::vector<ArchivedKernel>& kernels() const { return kernels_; }
  /// Bytes that a block takes in the file, and unpacked.
  std::size_t packed_bytes(std::uint32_t block) const { return blocks_.at(block).packed_bytes; }
  std::size_t block_bytes(std::uint32_t block) const { return blocks_.at(block).bytes; }

 private:
  struct Block {
    std::uint64_t offset = 0;
    std::uint32_t packed_bytes = 0;
    std::uint32_t bytes = 0;
  };

  void read_index(const std::string& index);
  [[noreturn]] void reject(const std::string& what) const;

  std::filesystem::path path_;
  RegularFile file_;
  std::string digest_;
  std::vector<Block> blocks_;
  std::vector<ArchivedKernel> kernels_;
};

/// A kernel for an archive.
struct KernelToArchive {
  std::string key;   ///< KernelRecipe::digest().
  std::string name;  ///< Operation and family.
  CompiledKernel kernel;
};

/// Writes an archive, which appears whole or not at all. Equal kernels in the same order give equal
/// bytes; those that stand together share a block where architecture and name are the same.
/// Throws: Error{not_writable}.
void write_kernel_archive(const std::filesystem::path& file,
                          const std::vector<KernelToArchive>& kernels);

/// The archive that is installed where this library finds it: what SWR_KERNELS names, else beside
/// the program or library (share/swr, or a wheel's swr_kernels), else /usr/local/share/swr and
/// /usr/share/swr. Empty when there is none.
std::optional<std::filesystem::path> installed_kernel_archive();

}  // namespace swr
