// SPDX-License-Identifier: MIT
#include "core/sha256.h"

#include "core/hex.h"
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
  return hex_of({digest.data(), size});
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace swr
