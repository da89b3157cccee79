// SPDX-License-Identifier: MIT
// A secret of the user's own, by which swr knows what it stored itself from what others put there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace swr {

/// Immutable, so any number of threads may use one.
class CacheKey {
 public:
  /// Reads the key, which is made where the file is missing: of several processes that do so at
  /// once all get the same. The file is readable and writable by its owner alone.
  /// Throws: Error{not_writable} when it cannot be made; Error{unreadable} when it is no regular
  /// file, a link, another user's, open to others or of the wrong size.
  static CacheKey read_or_make(const std::filesystem::path& file);

  /// What only a holder of the key can say of the text: HMAC-SHA256, RFC 2104, in lower-case hex.
  std::string seal(std::string_view text) const;
  /// Whether `seal` is that of the text; takes equally long wherever they differ.
  bool is_seal(std::string_view seal, std::string_view text) const;

 private:
  explicit CacheKey(std::string secret) : secret_(std::move(secret)) {}

  std::string secret_;
};

}  // namespace swr
