// SPDX-License-Identifier: MIT
#include "generator/digest.h"

#include "core/sha256.h"

namespace swr {

std::string digest_of_fields(std::span<const std::string_view> fields) {
  std::string joined;
  for (const std::string_view field : fields) {
    joined += std::to_string(field.size()) + ":";
    joined += field;
  }
  return sha256_hex(joined);
}

}  // namespace swr
