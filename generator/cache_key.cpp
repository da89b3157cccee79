// SPDX-License-Identifier: MIT
#include "generator/cache_key.h"

#include "core/file_descriptor.h"
#include "core/hex.h"
#include <swr/error.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace swr {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 32;  // As many as the hash has.

[[noreturn]] void reject(const fs::path& file, const std::string& cause) {
  throw Error(ErrorCode::unreadable,
              "the cache's key '" + file.string() + "' " + cause +
                  "; remove it, and the kernels of the cache are compiled once more");
}

[[noreturn]] void fail(const fs::path& file) {
  const std::string cause = std::generic_category().message(errno);
  throw Error(ErrorCode::not_writable,
              "the cache's key '" + file.string() + "' cannot be made (" + cause +
                  "); set XDG_STATE_HOME to a directory of your own that can be written");
}

std::string random_secret() {
  std::array<unsigned char, kBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw Error(ErrorCode::unreadable, "libcrypto gives no random numbers; check its installation");
  }
  return {bytes.begin(), bytes.end()};
}

/// A whole file of the key, under a name that nobody else has.
fs::path write_draft(const fs::path& file, const std::string& secret) {
  std::string name = file.string() + ".new-XXXXXX";
  const FileDescriptor draft(mkostemp(name.data(), O_CLOEXEC));  // Of mode 0600.
  const bool is_written = draft.get() >= 0 && write(draft.get(), secret.data(), secret.size()) ==
                                                  static_cast<ssize_t>(secret.size());
  if (!is_written || fsync(draft.get()) != 0) {
    const int cause = errno;
    unlink(name.c_str());
    errno = cause;
    fail(file);
  }
  return name;
}

/// Whoever is first gives the key its name; those who come later find it there.
void make(const fs::path& file) {
  std::error_code failure;
  fs::create_directories(file.parent_path(), failure);
  const fs::path draft = write_draft(file, random_secret());
  const bool is_there = link(draft.c_str(), file.c_str()) == 0 || errno == EEXIST;
  const int cause = errno;
  unlink(draft.c_str());
  if (!is_there) {
    errno = cause;
    fail(file);
  }
}

FileDescriptor open_key(const fs::path& file) {
  return FileDescriptor(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

void require_own(const FileDescriptor& key, const fs::path& file) {
  struct stat status {};
  if (fstat(key.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    reject(file, "is no regular file");
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    reject(file, "is another user's or open to others");
  }
}

std::string read_key(const FileDescriptor& key, const fs::path& file) {
  std::array<char, kBytes + 1> bytes{};
  const ssize_t count = read(key.get(), bytes.data(), bytes.size());
  if (count != static_cast<ssize_t>(kBytes)) {
    reject(file, "is damaged");
  }
  return {bytes.data(), kBytes};
}

}  // namespace

CacheKey CacheKey::read_or_make(const fs::path& file) {
  FileDescriptor key = open_key(file);
  if (key.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) {
    make(file);
    key = open_key(file);
  }
  if (key.get() < 0) {
    reject(file, "cannot be read (" + std::generic_category().message(errno) + ")");
  }
  require_own(key, file);
  return CacheKey(read_key(key, file));
}

std::string CacheKey::seal(std::string_view text) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data(),
           &size) == nullptr) {
    throw Error(ErrorCode::unreadable, "libcrypto cannot compute HMAC; check its installation");
  }
  return hex_of({code.data(), size});
}

bool CacheKey::is_seal(std::string_view seal, std::string_view text) const {
  const std::string right = this->seal(text);
  return seal.size() == right.size() && CRYPTO_memcmp(seal.data(), right.data(), right.size()) == 0;
}

}  // namespace swr
