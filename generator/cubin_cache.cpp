// SPDX-License-Identifier: MIT
#include "generator/cubin_cache.h"

#include "core/bounded_json.h"
#include "core/fields.h"
#include "core/sha256.h"
#include <swr/error.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

/// Entries are written with sorted keys, which their digest depends on.
using SortedJson = nlohmann::json;

/// Raised when the meaning of an entry changes; older entries then count as absent.
constexpr int kFormat = 1;

constexpr int kIndent = 2;

SortedJson to_json(const CompiledKernel& kernel) {
  const KernelResources& resources = kernel.resources;
  return {{"format", kFormat},
          {"source_sha256", kernel.source_digest},
          {"cubin_sha256", kernel.cubin_digest},
          {"entry", kernel.entry},
          {"further_entries", kernel.further_entries},
          {"sm_arch", kernel.sm_arch},
          {"registers_per_thread", resources.registers_per_thread},
          {"spill_store_bytes", resources.spill_store_bytes},
          {"spill_load_bytes", resources.spill_load_bytes},
          {"stack_bytes", resources.stack_bytes},
          {"static_smem_bytes", resources.static_smem_bytes}};
}

/// Throws: Json::exception when it is missing; Error when it is no number that could be true.
int number(const Json& json, const char* name, long long low, long long high) {
  const Json& field = json.at(name);
  if (!field.is_number_integer()) {
    throw Error(ErrorCode::unreadable, std::string(name) + " must be a whole number");
  }
  const auto value = field.get<long long>();
  require_between(name, value, low, high);
  return static_cast<int>(value);
}

/// Throws: Json::exception or Error for fields that are missing, mistyped or impossible.
CompiledKernel from_json(const Json& json) {
  CompiledKernel kernel;
  kernel.entry = json.at("entry").get<std::string>();
  kernel.sm_arch = number(json, "sm_arch", 1, 999);
  kernel.cubin_digest = json.at("cubin_sha256").get<std::string>();
  // Entries of former versions lack it.
  kernel.further_entries = json.value("further_entries", std::vector<std::string>{});
  kernel.source_digest = json.at("source_sha256").get<std::string>();
  kernel.resources = {
      .registers_per_thread = number(json, "registers_per_thread", 0, 255),
      .spill_store_bytes = number(json, "spill_store_bytes", 0, kMaxInt),
      .spill_load_bytes = number(json, "spill_load_bytes", 0, kMaxInt),
      .stack_bytes = number(json, "stack_bytes", 0, kMaxInt),
      .static_smem_bytes = number(json, "static_smem_bytes", 0, kMaxInt),
  };
  return kernel;
}

/// The kernel an entry file describes, without its cubin; empty when the file is damaged.
std::optional<CompiledKernel> parse_entry(const std::string& text, const std::string& key) {
  try {
    constexpr JsonLimits kEntry{.bytes = std::size_t{1} << 20};
    const Json file = parse_json(text, "the entry", kEntry);
    const Json& body = file.at("kernel");
    if (file.at("kernel_sha256") != sha256_hex(body.dump()) || body.at("format") != kFormat) {
      return std::nullopt;
    }
    CompiledKernel kernel = from_json(body);
    return kernel.source_digest == key ? std::optional(std::move(kernel)) : std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;  // A damaged entry is a miss; storing the key again replaces it.
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string entry_text(const CompiledKernel& kernel) {
  const SortedJson body = to_json(kernel);
  const SortedJson entry{{"kernel", body}, {"kernel_sha256", sha256_hex(body.dump())}};
  return entry.dump(kIndent) + "\n";
}

[[noreturn]] void reject_directory(const std::filesystem::path& directory,
                                   const std::string& reason) {
  throw Error(ErrorCode::not_writable, "the cubin cache '" + directory.string() +
                                           "' cannot be written (" + reason +
                                           "); choose another directory with --cache-dir");
}

std::filesystem::path cubin_file(const std::filesystem::path& directory,
                                 const std::string& digest) {
  return directory / "cubins" / (digest + ".cubin");
}

/// A digest may come from a file, and becomes a path.
bool is_digest(const std::string& text) {
  constexpr std::size_t kHexDigits = 64;
  return text.size() == kHexDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

/// The whole file; empty when there is none that can be read and that is believed: who put a file
/// into the folder while others could write there still owns it.
std::optional<std::string> read_believed(const std::filesystem::path& path, Sharing sharing) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  try {
    const RegularFile file(path, Links::refused);
    if (sharing == Sharing::group || is_trusted(file.status(), sharing)) {
      return file.read_whole(kMostBytes);
    }
  } catch (const Error&) {
  }
  return std::nullopt;
}

std::optional<std::vector<std::byte>> read_intact_cubin(const std::filesystem::path& directory,
                                                        const std::string& digest,
                                                        Sharing sharing) {
  const auto content =
      is_digest(digest) ? read_believed(cubin_file(directory, digest), sharing) : std::nullopt;
  if (!content || sha256_hex(*content) != digest) {
    return std::nullopt;
  }
  const auto bytes = std::as_bytes(std::span(*content));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

/// Makes the folder where it is missing, not open to strangers even where new folders are.
std::error_code make_folder(const std::filesystem::path& folder, Sharing sharing) {
  using std::filesystem::perms;
  const perms strangers =
      perms::others_write | (sharing == Sharing::group ? perms::none : perms::group_write);
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, strangers, std::filesystem::perm_options::remove, error);
  }
  if (!error && access(folder.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  return error;
}

void require_trusted_folder(const std::filesystem::path& folder, Sharing sharing) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0 || is_trusted(status, sharing)) {
    return;
  }
  const bool is_open_to_group_alone = (status.st_mode & (S_IWGRP | S_IWOTH)) == S_IWGRP;
  throw Error(ErrorCode::unreadable,
              "the cubin cache '" + folder.string() +
                  "' can be changed by other users, whose code would then be launched; make it "
                  "yours alone (chown, chmod -R go-w), " +
                  (is_open_to_group_alone ? "trust its group with --shared-cache, " : "") +
                  "or choose another directory with --cache-dir");
}

/// What a link leads to may change.
void require_no_link(const std::filesystem::path& folder) {
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(folder))) {
    throw Error(ErrorCode::unreadable,
                "'" + folder.string() +
                    "' of the cubin cache is a link, and swr follows none there; remove it, or "
                    "make the whole cache's directory a link");
  }
}

}  // namespace

void require_trusted_cache(const std::filesystem::path& directory, Sharing sharing) {
  require_trusted_folder(directory, sharing);
  for (const char* part : {"entries", "cubins", "locks"}) {
    require_no_link(directory / part);
    require_trusted_folder(directory / part, sharing);
  }
}

std::optional<std::vector<std::byte>> read_cached_cubin(const std::filesystem::path& directory,
                                                        const std::string& digest,
                                                        Sharing sharing) {
  require_trusted_cache(directory, sharing);
  return read_intact_cubin(directory, digest, sharing);
}

CubinCache::CubinCache(std::filesystem::path directory, Sharing sharing)
    : directory_(std::move(directory)), sharing_(sharing) {
  for (const auto& folder :
       {directory_, directory_ / "entries", directory_ / "cubins", directory_ / "locks"}) {
    if (const std::error_code error = make_folder(folder, sharing)) {
      reject_directory(directory_, error.message());
    }
  }
  require_trusted_cache(directory_, sharing);
}

std::filesystem::path CubinCache::entry_path(const std::string& key) const {
  return directory_ / "entries" / (key + ".json");
}

std::filesystem::path CubinCache::cubin_path(const std::string& digest) const {
  return cubin_file(directory_, digest);
}

std::optional<CompiledKernel> CubinCache::find(const std::string& key) const {
  const auto text = read_believed(entry_path(key), sharing_);
  auto kernel = text ? parse_entry(*text, key) : std::nullopt;
  auto cubin =
      kernel ? read_intact_cubin(directory_, kernel->cubin_digest, sharing_) : std::nullopt;
  if (!cubin) {
    return std::nullopt;
  }
  kernel->cubin = std::move(*cubin);
  kernel->from_cache = true;
  return kernel;
}

void CubinCache::store(const CompiledKernel& kernel) const {
  try {
    write_atomically(cubin_path(kernel.cubin_digest),
                     {reinterpret_cast<const char*>(kernel.cubin.data()), kernel.cubin.size()});
    write_atomically(entry_path(kernel.source_digest), entry_text(kernel));
  } catch (const Error& error) {
    reject_directory(directory_, error.what());
  }
}

CompiledKernel CubinCache::find_or_compile(const std::string& key,
                                           const std::function<CompiledKernel()>& compile) const {
  if (auto stored = find(key)) {
    return std::move(*stored);
  }
  // Two hex digits: 256 locks keep the folder small and rarely make unrelated keys wait.
  // Who holds one may have been stopped: after a while the same is compiled twice.
  constexpr std::chrono::seconds kLongestWait{5};
  const FileDescriptor lock = lock_file(directory_ / "locks" / key.substr(0, 2), kLongestWait);
  if (auto stored = find(key)) {
    return std::move(*stored);
  }
  CompiledKernel kernel = compile();
  try {
    store(kernel);
  } catch (const Error&) {
    // Such as of a full disk: the kernel is there, and the next who wants it compiles it again.
  }
  return kernel;
}

}  // namespace swr
