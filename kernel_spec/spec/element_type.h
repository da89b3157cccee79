// SPDX-License-Identifier: MIT
// Types of kernel arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace swr::kernel_spec {

enum class NumberKind { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, f16, bf16, e4m3, e5m2 };

/// The bits of a real number of less than 32 bits.
double number_of_bits(NumberKind kind, unsigned bits);
/// Rounded to nearest, ties to even; what is too large becomes infinite, or the largest number
/// where there is no infinity.
unsigned bits_of_number(NumberKind kind, double number);

template <typename Bits, NumberKind kKind>
struct SmallNumber {
  Bits bits = 0;

  SmallNumber() = default;
  explicit SmallNumber(double number) : bits(static_cast<Bits>(bits_of_number(kKind, number))) {}
  explicit operator double() const { return number_of_bits(kKind, bits); }
};

/// What `function` returns for the C++ type of the numbers, its template argument.
template <typename Function>
auto with_number(NumberKind kind, Function&& function) {
  switch (kind) {
    case NumberKind::i8:
      return function.template operator()<std::int8_t>();
    case NumberKind::u8:
      return function.template operator()<std::uint8_t>();
    case NumberKind::i16:
      return function.template operator()<std::int16_t>();
    case NumberKind::u16:
      return function.template operator()<std::uint16_t>();
    case NumberKind::i32:
      return function.template operator()<std::int32_t>();
    case NumberKind::u32:
      return function.template operator()<std::uint32_t>();
    case NumberKind::i64:
      return function.template operator()<std::int64_t>();
    case NumberKind::u64:
      return function.template operator()<std::uint64_t>();
    case NumberKind::f32:
      return function.template operator()<float>();
    case NumberKind::f64:
      return function.template operator()<double>();
    case NumberKind::f16:
      return function.template operator()<SmallNumber<std::uint16_t, NumberKind::f16>>();
    case NumberKind::bf16:
      return function.template operator()<SmallNumber<std::uint16_t, NumberKind::bf16>>();
    case NumberKind::e4m3:
      return function.template operator()<SmallNumber<std::uint8_t, NumberKind::e4m3>>();
    default:
      return function.template operator()<SmallNumber<std::uint8_t, NumberKind::e5m2>>();
  }
}

template <typename Number>
Number number_of(const std::byte* place) {
  Number number{};
  std::memcpy(&number, place, sizeof number);
  return number;
}

/// A number, or several of them: a short vector such as float4, a complex number, a structure's
/// bytes.
struct ElementType {
  NumberKind kind = NumberKind::f32;
  int lanes = 1;

  bool is_real() const { return kind >= NumberKind::f32; }
  std::size_t lane_bytes() const;
  std::size_t bytes() const { return lane_bytes() * static_cast<std::size_t>(lanes); }
  bool operator==(const ElementType&) const = default;
};

/// Errors of an element that its type forgives where nobody says others: a few units in the last
/// place. Those of float are a spec's usual tolerances.
struct TypeTolerance {
  double absolute = 0.0;
  double relative = 0.0;
};
TypeTolerance tolerance_of(NumberKind kind);

/// From CUDA's names, with or without const, and those of T1: "const float*", "uint32", "int2",
/// "__half", "cuda::std::complex<float>", and "struct<24>" of a structure's bytes.
/// Throws: Error{invalid_argument} for others.
ElementType element_type(const std::string& name);

/// The number at `place`.
double number_at(NumberKind kind, const std::byte* place);
/// Rounds a real number to what the type holds.
void write_number(NumberKind kind, double value, std::byte* place);
/// The same of whole numbers, all of which have 64 bits.
void write_integer(NumberKind kind, long long value, std::byte* place);

}  // namespace swr::kernel_spec
