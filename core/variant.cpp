// SPDX-License-Identifier: MIT
#include "core/axis_values.h"
#include "core/enum_text.h"
#include <swr/error.h>
#include <swr/variant.h>

#include <array>
#include <type_traits>
#include <vector>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kDTypes{"fp16"sv, "bf16"sv};
constexpr std::array kFamilies{"portable"sv, "hopper"sv};
constexpr std::array kOrders{"cyclic"sv, "sawtooth"sv, "right_to_left"sv};
constexpr std::array kPersistences{"grid"sv, "persistent"sv, "pairs"sv, "snake"sv, "dynamic"sv};
constexpr std::array kSwizzles{"q_fastest"sv, "head_fastest"sv, "head_sections"sv};
constexpr std::array kMainloops{"plain"sv, "mutex"sv, "overlap"sv, "overlap_ordered"sv};
constexpr std::array kPOperands{"registers"sv, "shared"sv};
constexpr std::array kSwitches{"off"sv, "on"sv};

template <int Variant::*Member, int Low, int High>
constexpr Axis integer_axis(std::string_view name, std::string_view summary,
                            std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const Variant& variant) -> AxisValue {
            return static_cast<long long>(variant.*Member);
          },
          .set =
              [](const Axis& axis, Variant& variant, const AxisValue& value) {
                variant.*Member = require_in_range(value, axis.name, Low, High);
              },
          .spellings = {},
          .only = only};
}

template <auto Member>
constexpr Axis enum_axis(std::string_view name, std::string_view summary,
                         std::span<const std::string_view> spellings,
                         std::optional<Family> only = {}) {
  return {.name = name,
          .summary = summary,
          .get = [](const Variant& variant) -> AxisValue {
            return std::string(to_string(variant.*Member));
          },
          .set =
              [](const Axis& axis, Variant& variant, const AxisValue& value) {
                using Enum = std::remove_reference_t<decltype(variant.*Member)>;
                variant.*Member = parse_enum<Enum>(axis.spellings, to_string(value), axis.name);
              },
          .spellings = spellings,
          .only = only};
}

constexpr Axis smem_swizzle_axis() {
  return {.name = "smem_swizzle",
          .summary = "XOR-swizzled shared memory rows.",
          .get = [](const Variant& variant) -> AxisValue {
            return std::string(kSwitches[variant.smem_swizzle ? 1 : 0]);
          },
          .set =
              [](const Axis& axis, Variant& variant, const AxisValue& value) {
                variant.smem_swizzle =
                    parse_enum<int>(axis.spellings, to_string(value), axis.name) != 0;
              },
          .spellings = kSwitches,
          .only = Family::portable};
}

constexpr int kMaxTile = 1024;
constexpr int kMaxCount = 1 << 20;

constexpr std::array kAxes{
    enum_axis<&Variant::family>("family", "Kernel family.", kFamilies),
    integer_axis<&Variant::tile_m, 1, kMaxTile>("tile_m", "Q rows per tile."),
    integer_axis<&Variant::tile_n, 1, kMaxTile>("tile_n", "K and V rows per tile."),
    integer_axis<&Variant::warps, 1, 32>("warps", "Warps of a CTA that compute."),
    integer_axis<&Variant::stages, 1, 4>("stages", "K and V tiles held in shared memory."),
    enum_axis<&Variant::order>("order", "Direction in which K and V are streamed.", kOrders),
    enum_axis<&Variant::persistence>("persistence", "How Q tiles are handed to CTAs.",
                                     kPersistences),
    integer_axis<&Variant::workers, 0, kMaxCount>(
        "workers", "CTAs of a persistent launch; 0 fills every resident slot."),
    enum_axis<&Variant::swizzle>("swizzle", "How linear tiles map to heads and Q tiles.",
                                 kSwizzles),
    integer_axis<&Variant::section_heads, 0, kMaxCount>("section_heads",
                                                        "Heads per section of head_sections."),
    smem_swizzle_axis(),
    enum_axis<&Variant::mainloop>("mainloop", "How products and softmax of tiles interleave.",
                                  kMainloops, Family::hopper),
    enum_axis<&Variant::p_operand>("p_operand", "Where P lies while it is multiplied with V.",
                                   kPOperands, Family::hopper),
    integer_axis<&Variant::exp2_fma_eighths, 0, 4>(
        "exp2_fma_eighths", "Of eight exponentials, those the FMA pipe computes.", Family::hopper),
    integer_axis<&Variant::unroll, 1, 2>("unroll", "Unrolling of the loop over tiles without mask.",
                                         Family::hopper),
};

}  // namespace

std::span<const Axis> axes() { return kAxes; }

const Axis* find_axis(std::string_view name) {
  for (const Axis& axis : kAxes) {
    if (axis.name == name) {
      return &axis;
    }
  }
  return nullptr;
}

std::string to_key(const Variant& variant) {
  std::string key;
  for (const Axis& axis : kAxes) {
    if (axis.belongs_to(variant.family)) {
      key += key.empty() ? "" : ",";
      key += std::string(axis.name) + "=" + to_string(axis.get(variant));
    }
  }
  return key;
}

Variant parse_variant(std::string_view key) {
  Variant variant;
  std::vector<const Axis*> named;
  while (!key.empty()) {
    const auto comma = key.find(',');
    const std::string_view part = key.substr(0, comma);
    key = comma == std::string_view::npos ? std::string_view{} : key.substr(comma + 1);
    const auto equals = part.find('=');
    const Axis* axis = find_axis(part.substr(0, equals));
    if (equals == std::string_view::npos || axis == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  "'" + std::string(part) + "' is no axis=value part of a variant");
    }
    axis->set(*axis, variant, std::string(part.substr(equals + 1)));
    named.push_back(axis);
  }
  for (const Axis* axis : named) {
    if (!axis->belongs_to(variant.family)) {
      throw Error(ErrorCode::invalid_argument, "family " + std::string(to_string(variant.family)) +
                                                   " has no axis " + std::string(axis->name));
    }
  }
  return variant;
}

std::string_view to_string(DType value) { return enum_text(kDTypes, value); }
std::string_view to_string(Family value) { return enum_text(kFamilies, value); }
std::string_view to_string(Order value) { return enum_text(kOrders, value); }
std::string_view to_string(Persistence value) { return enum_text(kPersistences, value); }
std::string_view to_string(Mainloop value) { return enum_text(kMainloops, value); }
std::string_view to_string(POperand value) { return enum_text(kPOperands, value); }
std::string_view to_string(Swizzle value) { return enum_text(kSwizzles, value); }

DType parse_dtype(std::string_view text) { return parse_enum<DType>(kDTypes, text, "dtype"); }

std::string to_string(const AxisValue& value) {
  if (const auto* integer = std::get_if<long long>(&value)) {
    return std::to_string(*integer);
  }
  return std::get<std::string>(value);
}

}  // namespace swr
