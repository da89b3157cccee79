// SPDX-License-Identifier: MIT
// What is chosen: one point of the tuning space, and the axes it is made of.
#pragma once

#include <swr/axes.h>

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace swr {

/// A kernel family: one template folder with its own axes and constraints. Append-only.
enum class Family {
  /// mma.sync, ldmatrix and cp.async; sm_80 to sm_121.
  portable,
  /// wgmma, the bulk tensor copy engine and specialised warpgroups; sm_90a.
  hopper,
};

/// One choice on every axis. The members are the axes; `axes()` describes each of them once for
/// the command line, the database, JSON and the documentation. Axes that belong to another family
/// keep their default.
struct Variant {
  Family family = Family::portable;
  /// Q rows per tile; portable: a multiple of 16 * warps; hopper: 16 * warps.
  int tile_m = 64;
  /// K and V rows per tile; a multiple of 16.
  int tile_n = 64;
  /// Warps of a CTA that compute; each owns tile_m / warps rows.
  int warps = 4;
  /// K and V tiles resident in shared memory, 1 to 4.
  int stages = 2;
  Order order = Order::cyclic;
  Persistence persistence = Persistence::grid;
  /// CTAs of a persistent launch; 0 means one per resident slot (SMs times CTAs per SM).
  int workers = 0;
  Swizzle swizzle = Swizzle::q_fastest;
  /// Heads per section under Swizzle::head_sections; 0 elsewhere.
  int section_heads = 0;
  /// Portable: XOR-swizzled shared memory rows; off shows what bank conflicts cost.
  bool smem_swizzle = true;
  /// Hopper: how products and softmax of neighbouring tiles interleave.
  Mainloop mainloop = Mainloop::plain;
  /// Hopper: where P lies while it is multiplied with V.
  POperand p_operand = POperand::registers;
  /// Hopper: of every eight exponentials, how many the FMA pipe computes; 0 to 4.
  int exp2_fma_eighths = 0;
  /// Hopper: unrolling of the loop over tiles that need no mask; 1 or 2.
  int unroll = 1;

  auto operator<=>(const Variant&) const = default;
};

/// An axis value in the form in which it is stored and printed.
using AxisValue = std::variant<long long, std::string>;

/// One axis of the tuning space.
struct Axis {
  std::string_view name;     ///< Spelling on the command line, in JSON and as database column.
  std::string_view summary;  ///< One sentence for --help and the documentation.
  AxisValue (*get)(const Variant&);
  /// Call as axis.set(axis, variant, value); text is accepted for integers too.
  /// Throws: Error{invalid_argument} when the value is not one of the axis.
  void (*set)(const Axis& axis, Variant&, const AxisValue&);
  /// The accepted spellings of an enumerated axis; empty for integers.
  std::span<const std::string_view> spellings;
  /// The one family that has the axis; empty for an axis of every family.
  std::optional<Family> only;

  bool belongs_to(Family family) const { return !only || *only == family; }
};

/// Every axis, in the order of Variant's members. Immutable; safe from any thread.
std::span<const Axis> axes();

/// Finds an axis by name; nullptr when there is none.
const Axis* find_axis(std::string_view name);

/// Canonical text, one `name=value` per axis of the variant's family joined by commas; equal
/// variants give equal keys.
std::string to_key(const Variant& variant);

/// Reads what to_key wrote. Axes that are not named keep their default.
/// Throws: Error{invalid_argument} naming the part that cannot be read or is of another family.
Variant parse_variant(std::string_view key);

std::string_view to_string(DType value);
std::string_view to_string(Family value);
std::string_view to_string(Order value);
std::string_view to_string(Persistence value);
std::string_view to_string(Mainloop value);
std::string_view to_string(POperand value);
std::string_view to_string(Swizzle value);

/// Throws: Error{invalid_argument} listing the accepted spellings.
DType parse_dtype(std::string_view text);

/// Text of an axis value as printed in tables.
std::string to_string(const AxisValue& value);

}  // namespace swr
