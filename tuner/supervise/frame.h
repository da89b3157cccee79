// SPDX-License-Identifier: MIT
// JSON documents on a byte stream: each in the binary form of JSON (CBOR, RFC 8949), which keeps
// kernels, exact numbers and texts of any encoding, after its length.
#pragma once

#include "core/json.h"

#include <optional>
#include <string>
#include <string_view>

namespace swr {

/// The document's length in bytes, in 4 bytes with the most significant first, and the document.
std::string encode_frame(const Json& document);

/// Puts frames together from the pieces in which they arrive.
class FrameReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }

  /// The next document; empty until all of it has arrived.
  /// Throws: Error{unreadable} when the bytes are no frame.
  std::optional<Json> next();

 private:
  std::string bytes_;
};

}  // namespace swr
