// SPDX-License-Identifier: MIT
#include "tuner/supervise/frame.h"

#include "core/bounded_json.h"
#include <swr/error.h>

#include <cstddef>

namespace swr {
namespace {

constexpr std::size_t kHeaderBytes = 4;
constexpr unsigned kBitsPerByte = 8;
/// Far above a race of many kernels; a damaged process must not make its reader run out of memory.
constexpr std::size_t kMaxDocumentBytes = std::size_t{1} << 28;

std::size_t document_bytes(std::string_view header) {
  std::size_t length = 0;
  for (const char byte : header) {
    length = (length << kBitsPerByte) | static_cast<unsigned char>(byte);
  }
  return length;
}

[[noreturn]] void reject(const std::string& cause) {
  throw Error(ErrorCode::unreadable, "tuner and measuring process do not understand each other (" +
                                         cause + "); are both the same swr?");
}

Json read_document(std::string_view bytes) {
  try {
    return parse_cbor(bytes, "a message", {.bytes = kMaxDocumentBytes});
  } catch (const Error& error) {
    reject(error.what());
  }
}

}  // namespace

std::string encode_frame(const Json& document) {
  std::string frame(kHeaderBytes, '\0');
  Json::to_cbor(document, frame);
  const std::size_t length = frame.size() - kHeaderBytes;
  if (length > kMaxDocumentBytes) {
    throw Error(ErrorCode::invalid_argument, "a message of " + std::to_string(length) +
                                                 " bytes is too long; pass fewer variants at once");
  }
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    frame[i] = static_cast<char>(length >> (kBitsPerByte * (kHeaderBytes - 1 - i)));
  }
  return frame;
}

std::optional<Json> FrameReader::next() {
  if (bytes_.size() < kHeaderBytes) {
    return std::nullopt;
  }
  const std::size_t length = document_bytes(std::string_view(bytes_).substr(0, kHeaderBytes));
  if (length > kMaxDocumentBytes) {
    reject("a message of " + std::to_string(length) + " bytes");
  }
  if (bytes_.size() < kHeaderBytes + length) {
    return std::nullopt;
  }
  Json document = read_document(std::string_view(bytes_).substr(kHeaderBytes, length));
  bytes_.erase(0, kHeaderBytes + length);
  return document;
}

}  // namespace swr
