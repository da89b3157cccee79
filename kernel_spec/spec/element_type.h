// SPDX-License-Identifier: MIT
// Types of kernel arguments.
#pragma once

#include <cstddef>
#include <string>

namespace swr::kernel_spec {

enum class NumberKind { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, f16, bf16, e4m3, e5m2 };

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
