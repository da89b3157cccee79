// SPDX-License-Identifier: MIT
#include "core/sha256.h"

#include "core/no_fork.h"
#include <swr/error.h>

#include <openssl/evp.h>

#include <array>

namespace swr {

namespace {

/// Two lower-case digits for each byte.
std::string hex_of(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

}  // namespace

std::string sha256_hex(std::span<const std::byte> data) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const NoFork meanwhile;
  if (EVP_Digest(data.data(), data.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::unreadable, "libcrypto cannot compute SHA-256; check its installation");
  }
  return hex_of({digest.data(), size});
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace swr
