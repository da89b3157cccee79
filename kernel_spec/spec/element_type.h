// SPDX-License-Identifier: MIT
// Types of kernel arguments.
#pragma once

#include <cstddef>
#include <string>

namespace swr::kernel_spec {

enum class NumberKind { i8, u8, i16, u16, i32, u32, i64, u64, f32, f64 };

/// A number, or a short vector of them such as float4.
struct ElementType {
  NumberKind kind = NumberKind::f32;
  int lanes = 1;

  bool is_real() const { return kind >= NumberKind::f32; }
  std::size_t lane_bytes() const;
  std::size_t bytes() const { return lane_bytes() * static_cast<std::size_t>(lanes); }
};

/// From CUDA's names, with or without const, and those of T1: "const float*", "uint32", "int2".
/// Throws: Error{invalid_argument} for others.
ElementType element_type(const std::string& name);

/// The number at `place`.
double number_at(NumberKind kind, const std::byte* place);
/// Rounds a real number to what the type holds.
void write_number(NumberKind kind, double value, std::byte* place);
/// The same of whole numbers, all of which have 64 bits.
void write_integer(NumberKind kind, long long value, std::byte* place);

}  // namespace swr::kernel_spec
