// SPDX-License-Identifier: MIT
#include "generator/kernel_archive.h"

#include "core/sha256.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string_view>
#include <utility>
#include <zstd.h>

namespace swr {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kMagic = "SWRKERN1"sv;
constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kHeaderBytes = kMagic.size() + 2 * sizeof(std::uint64_t) + kDigestBytes;
constexpr std::size_t kMostIndexBytes = std::size_t{1} << 28;
/// Unpacking one takes a few milliseconds, and kernels that are alike share it.
constexpr std::size_t kMostBlockBytes = std::size_t{2} << 20;
/// Of a block with one large kernel, which a reader makes room for.
constexpr std::uint32_t kMostUnpackedBytes = std::uint32_t{1} << 28;
constexpr int kLevel = 19;

/// Numbers are little-endian, as every host with an NVIDIA GPU is.
template <typename Number>
void append(std::string& text, Number value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) {
      throw Error(ErrorCode::unreadable, "its index ends too early");
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

constexpr std::string_view kHex = "0123456789abcdef"sv;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kHex[value >> 4];
    text += kHex[value & 15];
  }
  return text;
}

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(kHex.find(text[i]) * 16 + kHex.find(text[i + 1]));
  }
  return bytes;
}

/// In the order in which they are stored.
constexpr std::array kResources{
    &KernelResources::registers_per_thread, &KernelResources::spill_store_bytes,
    &KernelResources::spill_load_bytes,     &KernelResources::stack_bytes,
    &KernelResources::static_smem_bytes,    &KernelResources::wgmma_warnings};

std::string compressed(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0) {
    throw Error(ErrorCode::not_writable, std::string("zstd: ") + ZSTD_getErrorName(size));
  }
  packed.resize(size);
  return packed;
}

/// Index and blocks while an archive is made.
class ArchiveText {
 public:
  void add(const KernelToArchive& added) {
    const CompiledKernel& kernel = added.kernel;
    const std::pair kind{kernel.sm_arch, added.name};
    if (kind != kind_ || block_.size() + kernel.cubin.size() > kMostBlockBytes) {
      finish_block();
      kind_ = kind;
    }
    std::string entry = from_hex(added.key) + from_hex(kernel.cubin_digest);
    for (const std::size_t number :
         {std::size_t{block_count_}, block_.size(), kernel.cubin.size(),
          static_cast<std::size_t>(kernel.sm_arch), std::size_t{place_of(added.name)}}) {
      append(entry, static_cast<std::uint32_t>(number));
    }
    for (const auto resource : kResources) {
      append(entry, static_cast<std::int32_t>(kernel.resources.*resource));
    }
    entries_.push_back(std::move(entry));
    block_.append(reinterpret_cast<const char*>(kernel.cubin.data()), kernel.cubin.size());
  }

  std::string finished() {
    finish_block();
    std::ranges::sort(entries_);
    std::string index;
    append(index, block_count_);
    append(index, static_cast<std::uint32_t>(names_.size()));
    append(index, static_cast<std::uint32_t>(entries_.size()));
    index += places_;
    for (const std::string& name : names_) {
      append(index, static_cast<std::uint32_t>(name.size()));
      index += name;
    }
    for (const std::string& entry : entries_) {
      index += entry;
    }
    std::string text(kMagic);
    append(text, std::uint64_t{kHeaderBytes + index.size() + blocks_.size()});
    append(text, std::uint64_t{index.size()});
    return text + from_hex(sha256_hex(index)) + index + blocks_;
  }

 private:
  void finish_block() {
    if (block_.empty()) {
      return;
    }
    const std::string packed = compressed(block_);
    append(places_, std::uint64_t{blocks_.size()});
    append(places_, static_cast<std::uint32_t>(packed.size()));
    append(places_, static_cast<std::uint32_t>(block_.size()));
    blocks_ += packed;
    block_.clear();
    ++block_count_;
  }

  std::uint32_t place_of(const std::string& name) {
    const auto known = std::ranges::find(names_, name);
    const auto place = static_cast<std::uint32_t>(known - names_.begin());
    if (known == names_.end()) {
      names_.push_back(name);
    }
    return place;
  }

  std::pair<int, std::string> kind_;
  std::string block_;
  std::string blocks_;
  std::string places_;
  std::uint32_t block_count_ = 0;
  std::vector<std::string> names_;
  std::vector<std::string> entries_;
};

/// Where this library or program lies.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&installed_kernel_archive), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {};
  }
  std::error_code failure;
  const fs::path own = fs::canonical(info.dli_fname, failure);
  return failure ? fs::path() : own.parent_path();
}

}  // namespace

KernelArchive::KernelArchive(const fs::path& file) : path_(file), file_(file) {
  const std::string header = file_.read(0, kHeaderBytes);
  if (header.size() < kHeaderBytes || !header.starts_with(kMagic)) {
    reject("is no archive of kernels");
  }
  Reader reader(std::string_view(header).substr(kMagic.size()));
  const auto length = reader.number<std::uint64_t>();
  const auto index_bytes = reader.number<std::uint64_t>();
  digest_ = hex(reader.take(kDigestBytes));
  if (length != static_cast<std::uint64_t>(file_.status().st_size) ||
      index_bytes > kMostIndexBytes || index_bytes > length - kHeaderBytes) {
    reject("has another length than it says");
  }
  const std::string index = file_.read(kHeaderBytes, index_bytes);
  if (sha256_hex(index) != digest_) {
    reject("does not match its digest");
  }
  try {
    read_index(index);
  } catch (const Error& error) {
    reject(std::string("cannot be believed: ") + error.what());
  }
}

void KernelArchive::reject(const std::string& what) const {
  throw Error(ErrorCode::unreadable, "the kernels '" + path_.string() + "': the file " + what +
                                         "; install swr-kernels again, or name another file in "
                                         "SWR_KERNELS");
}

void KernelArchive::read_index(const std::string& index) {
  Reader reader(index);
  const auto block_count = reader.number<std::uint32_t>();
  const auto name_count = reader.number<std::uint32_t>();
  const auto kernel_count = reader.number<std::uint32_t>();
  const std::uint64_t first = kHeaderBytes + index.size();
  const std::uint64_t end = static_cast<std::uint64_t>(file_.status().st_size);
  for (std::uint32_t i = 0; i < block_count; ++i) {
    Block block{.offset = first + reader.number<std::uint64_t>(),
                .packed_bytes = reader.number<std::uint32_t>(),
                .bytes = reader.number<std::uint32_t>()};
    if (block.offset < first || block.offset > end || block.packed_bytes > end - block.offset) {
      throw Error(ErrorCode::unreadable, "a block lies outside of the file");
    }
    if (block.bytes > kMostUnpackedBytes) {
      throw Error(ErrorCode::unreadable, "a block is too large");
    }
    blocks_.push_back(block);
  }
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < name_count; ++i) {
    names.emplace_back(reader.take(reader.number<std::uint32_t>()));
  }
  for (std::uint32_t i = 0; i < kernel_count; ++i) {
    ArchivedKernel kernel{.key = hex(reader.take(kDigestBytes)),
                          .cubin_digest = hex(reader.take(kDigestBytes)),
                          .name = {}};
    kernel.block = reader.number<std::uint32_t>();
    kernel.offset = reader.number<std::uint32_t>();
    kernel.bytes = reader.number<std::uint32_t>();
    kernel.sm_arch = static_cast<int>(reader.number<std::uint32_t>());
    const auto name = reader.number<std::uint32_t>();
    for (const auto resource : kResources) {
      kernel.resources.*resource = reader.number<std::int32_t>();
    }
    if (kernel.block >= blocks_.size() || name >= names.size() ||
        kernel.offset > blocks_[kernel.block].bytes ||
        kernel.bytes > blocks_[kernel.block].bytes - kernel.offset) {
      throw Error(ErrorCode::unreadable, "a kernel lies outside of its block");
    }
    kernel.name = names[name];
    kernels_.push_back(std::move(kernel));
  }
  if (!reader.is_at_end() || !std::ranges::is_sorted(kernels_, {}, &ArchivedKernel::key)) {
    throw Error(ErrorCode::unreadable, "its index is out of order");
  }
}

std::vector<std::byte> KernelArchive::cubin(const ArchivedKernel& kernel) const {
  const Block& block = blocks_[kernel.block];
  const std::string packed = file_.read(block.offset, block.packed_bytes);
  std::vector<std::byte> bytes(block.bytes);
  const std::size_t size =
      ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size());
  if (size != bytes.size()) {
    reject("is damaged");
  }
  std::vector<std::byte> cubin(bytes.begin() + kernel.offset,
                               bytes.begin() + kernel.offset + kernel.bytes);
  if (sha256_hex(cubin) != kernel.cubin_digest) {
    reject("is damaged: a kernel does not match its digest");
  }
  return cubin;
}

std::optional<CompiledKernel> KernelArchive::find(const KernelRecipe& recipe) const {
  const std::string key = recipe.digest();
  const auto found = std::ranges::lower_bound(kernels_, key, {}, &ArchivedKernel::key);
  if (found == kernels_.end() || found->key != key) {
    return std::nullopt;
  }
  return CompiledKernel{
      .entry = std::string(recipe.entry),
      .further_entries = {recipe.further_entries.begin(), recipe.further_entries.end()},
      .sm_arch = recipe.sm_arch,
      .cubin = cubin(*found),
      .cubin_digest = found->cubin_digest,
      .source_digest = key,
      .resources = found->resources,
      .may_overlap = recipe.may_overlap,
      .from_cache = true};
}

void write_kernel_archive(const fs::path& file, const std::vector<KernelToArchive>& kernels) {
  ArchiveText archive;
  for (const KernelToArchive& kernel : kernels) {
    archive.add(kernel);
  }
  write_atomically(file, archive.finished());
}

std::optional<fs::path> installed_kernel_archive() {
  if (const char* const named = std::getenv("SWR_KERNELS"); named != nullptr && *named != '\0') {
    return named;
  }
  const fs::path own = own_folder();
  // Of a program in bin, of a library in lib or lib/TRIPLET, and of a wheel's swr and swr/bin.
  for (const fs::path& folder :
       {own / "../share/swr", own / "../../share/swr", own / "../swr_kernels",
        own / "../../swr_kernels", fs::path("/usr/local/share/swr"), fs::path("/usr/share/swr")}) {
    std::error_code ignored;
    if (const fs::path file = folder / kKernelArchiveFile; fs::exists(file, ignored)) {
      return file.lexically_normal();
    }
  }
  return std::nullopt;
}

}  // namespace swr
