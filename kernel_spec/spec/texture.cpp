// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/readers.h"
#include "kernel_spec/spec/spec_object.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace swr::kernel_spec {
namespace {

using namespace std::string_view_literals;

constexpr std::array kAddresses{"clamp"sv, "border"sv, "wrap"sv, "mirror"sv};
constexpr std::array kFilters{"nearest"sv, "linear"sv};
constexpr std::array kCoordinates{"elements"sv, "normalized"sv};
constexpr std::array kReads{"elements"sv, "fractions"sv};

/// The place of a word; the first one where the key is not there.
template <std::size_t Count>
std::size_t place_of(const SpecObject& object, const char* key,
                     const std::array<std::string_view, Count>& words) {
  const std::string word = object.text_or(key, std::string(words.front()));
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view one : words) {
      known.append(known.empty() ? "" : ", ").append(one);
    }
    refuse_spec(object.place(key), "it must be one of " + known + ", not '" + word + "'");
  }
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace

KernelTexture read_texture(const Json& json, const std::string& where) {
  const SpecObject object(json, where, {"extent", "address", "filter", "coordinates", "read"});
  return {.extent = object.expressions("extent"),
          .address = static_cast<TextureAddress>(place_of(object, "address", kAddresses)),
          .interpolates = place_of(object, "filter", kFilters) == 1,
          .is_normalized = place_of(object, "coordinates", kCoordinates) == 1,
          .reads_fractions = place_of(object, "read", kReads) == 1};
}

Json texture_json(const KernelTexture& texture) {
  return {{"extent", texture.extent},
          {"address", kAddresses[static_cast<std::size_t>(texture.address)]},
          {"filter", kFilters[texture.interpolates ? 1 : 0]},
          {"coordinates", kCoordinates[texture.is_normalized ? 1 : 0]},
          {"read", kReads[texture.reads_fractions ? 1 : 0]}};
}

void require_texture(const KernelArgument& argument, const ElementType& type,
                     const std::string& where) {
  const KernelTexture& texture = *argument.texture;
  if (argument.size || argument.is_output || argument.is_constant) {
    refuse_spec(where, "a texture has its extent for its size, and is read alone");
  }
  if (texture.extent.empty() || texture.extent.size() > 3) {
    refuse_spec(where, "a texture's extent has one to three expressions");
  }
  if (type.lane_bytes() == 8 || type.lanes == 3) {
    refuse_spec(where,
                "a texture has elements of 8, 16 or 32 bits, or 2 or 4 of these in one; not " +
                    argument.type);
  }
  if (texture.reads_fractions && (type.is_real() || type.lane_bytes() == 4)) {
    refuse_spec(where,
                "only whole numbers of 8 or 16 bits are read as fractions, not " + argument.type);
  }
  if (texture.interpolates && !type.is_real() && !texture.reads_fractions) {
    refuse_spec(where, "the filter linear needs real elements, or \"read\": \"fractions\"");
  }
  const bool repeats =
      texture.address == TextureAddress::wrap || texture.address == TextureAddress::mirror;
  if (repeats && !texture.is_normalized) {
    refuse_spec(where, "wrap and mirror need \"coordinates\": \"normalized\"");
  }
}

}  // namespace swr::kernel_spec
