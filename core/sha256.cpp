// SPDX-License-Identifier: MIT
#include "core/sha256.h"

#include <swr/error.h>

#include <openssl/evp.h>

#include <array>

namespace swr {

std::string sha256_hex(std::span<const std::byte> data) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(data.data(), data.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::unreadable, "libcrypto cannot compute SHA-256; check its installation");
  }
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace swr
