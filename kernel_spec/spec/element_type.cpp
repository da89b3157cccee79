// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/element_type.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <sstream>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr std::array<std::size_t, 14> kBytes{1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 2, 2, 1, 1};

/// Bits of a small real number: sign, exponent, fraction.
struct SmallReal {
  int exponent_bits;
  int fraction_bits;
  int bias;
  bool has_infinity;  ///< Else the largest exponent has numbers, and all ones are NaN.
};
constexpr SmallReal kHalf{5, 10, 15, true};
constexpr SmallReal kBrain{8, 7, 127, true};
constexpr SmallReal kE4m3{4, 3, 7, false};
constexpr SmallReal kE5m2{5, 2, 15, true};

double number_of_bits(const SmallReal& form, unsigned bits) {
  const unsigned ones = (1U << form.exponent_bits) - 1;
  const unsigned fraction = bits & ((1U << form.fraction_bits) - 1);
  const unsigned exponent = bits >> form.fraction_bits & ones;
  const bool is_negative = (bits >> (form.fraction_bits + form.exponent_bits) & 1U) != 0;
  const bool is_nan =
      form.has_infinity ? fraction != 0 : fraction == (1U << form.fraction_bits) - 1;
  double number = 0.0;
  if (exponent == ones && is_nan) {
    number = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == ones && form.has_infinity) {
    number = std::numeric_limits<double>::infinity();
  } else {
    const double units = fraction + (exponent == 0 ? 0.0 : std::ldexp(1.0, form.fraction_bits));
    const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - form.bias;
    number = std::ldexp(units, power - form.fraction_bits);
  }
  return is_negative ? -number : number;
}

/// Rounded to nearest, ties to even; what is too large becomes infinite, or the largest number
/// where there is no infinity.
unsigned bits_of_number(const SmallReal& form, double number) {
  const unsigned sign = std::signbit(number) ? 1U << (form.fraction_bits + form.exponent_bits) : 0;
  const unsigned ones = (1U << form.exponent_bits) - 1;
  const unsigned infinite = ones << form.fraction_bits;
  if (std::isnan(number)) {
    return sign | infinite | ((1U << form.fraction_bits) - 1);
  }
  const unsigned largest = form.has_infinity ? infinite : infinite + (1U << form.fraction_bits) - 2;
  if (std::isinf(number) || number == 0.0) {
    return sign | (number == 0.0 ? 0 : largest);
  }
  int power = 0;
  std::frexp(number, &power);
  const int exponent = std::max(power - 1 + form.bias, 1);
  const double units =
      std::nearbyint(std::ldexp(std::fabs(number), form.bias + form.fraction_bits - exponent));
  // A carry out of the fraction goes into the exponent by itself.
  const double bits = units + std::ldexp(exponent - 1, form.fraction_bits);
  return sign | (bits >= largest ? largest : static_cast<unsigned>(bits));
}

const std::map<std::string, NumberKind, std::less<>>& spellings() {
  using enum NumberKind;
  static const std::map<std::string, NumberKind, std::less<>> all{{"char", i8},
                                                                  {"signed char", i8},
                                                                  {"int8", i8},
                                                                  {"int8_t", i8},
                                                                  {"unsigned char", u8},
                                                                  {"uchar", u8},
                                                                  {"uint8", u8},
                                                                  {"uint8_t", u8},
                                                                  {"bool", u8},
                                                                  {"short", i16},
                                                                  {"int16", i16},
                                                                  {"int16_t", i16},
                                                                  {"unsigned short", u16},
                                                                  {"ushort", u16},
                                                                  {"uint16", u16},
                                                                  {"uint16_t", u16},
                                                                  {"int", i32},
                                                                  {"signed int", i32},
                                                                  {"int32", i32},
                                                                  {"int32_t", i32},
                                                                  {"unsigned int", u32},
                                                                  {"unsigned", u32},
                                                                  {"uint", u32},
                                                                  {"uint32", u32},
                                                                  {"uint32_t", u32},
                                                                  {"long", i64},
                                                                  {"long long", i64},
                                                                  {"longlong", i64},
                                                                  {"int64", i64},
                                                                  {"int64_t", i64},
                                                                  {"unsigned long", u64},
                                                                  {"unsigned long long", u64},
                                                                  {"ulong", u64},
                                                                  {"ulonglong", u64},
                                                                  {"uint64", u64},
                                                                  {"uint64_t", u64},
                                                                  {"size_t", u64},
                                                                  {"float", f32},
                                                                  {"float32", f32},
                                                                  {"double", f64},
                                                                  {"float64", f64},
                                                                  {"half", f16},
                                                                  {"__half", f16},
                                                                  {"half_t", f16},
                                                                  {"float16", f16},
                                                                  {"bfloat16", bf16},
                                                                  {"__nv_bfloat16", bf16},
                                                                  {"nv_bfloat16", bf16},
                                                                  {"__nv_fp8_e4m3", e4m3},
                                                                  {"float8_e4m3fn", e4m3},
                                                                  {"__nv_fp8_e5m2", e5m2},
                                                                  {"float8_e5m2", e5m2}};
  return all;
}

/// Without const, restrict and pointers, words apart by one space.
std::string plain_name(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    c = c == '*' || c == '&' ? ' ' : c;
  }
  std::istringstream words(text);
  std::string plain;
  for (std::string word; words >> word;) {
    const std::size_t space = word.rfind("::");
    word.erase(0, space == word.npos ? 0 : space + 2);  // Of std:: and the like.
    if (word != "const" && word != "__restrict__" && word != "volatile") {
      plain += (plain.empty() ? "" : " ") + word;
    }
  }
  return plain;
}

/// Of two equal parts.
const std::map<std::string, NumberKind, std::less<>>& complex_spellings() {
  using enum NumberKind;
  static const std::map<std::string, NumberKind, std::less<>> all{
      {"cuComplex", f32},       {"cuFloatComplex", f32},  {"complex64", f32},
      {"complex<float>", f32},  {"cuDoubleComplex", f64}, {"complex128", f64},
      {"complex<double>", f64}, {"complex<half>", f16},   {"complex<__half>", f16},
      {"__nv_bfloat162", bf16}, {"nv_bfloat162", bf16}};
  return all;
}

/// Of "struct<24>"; 0 where it is none.
int structure_bytes(std::string_view plain) {
  constexpr std::string_view kOpen = "struct<";
  constexpr int kMost = 4096;
  int bytes = 0;
  if (plain.starts_with(kOpen)) {
    const char* const last = plain.data() + plain.size();
    const auto [end, error] = std::from_chars(plain.data() + kOpen.size(), last, bytes);
    const bool is_closed = error == std::errc{} && end + 1 == last && *end == '>';
    bytes = is_closed && bytes <= kMost ? std::max(bytes, 0) : 0;
  }
  return bytes;
}

template <typename Number>
Number number_of(const std::byte* place) {
  Number number{};
  std::memcpy(&number, place, sizeof number);
  return number;
}

template <typename Number>
double read(const std::byte* place) {
  return static_cast<double>(number_of<Number>(place));
}

template <typename Number, typename Value>
void write(Value value, std::byte* place) {
  const auto number = static_cast<Number>(value);
  std::memcpy(place, &number, sizeof number);
}

template <typename Value>
void write_any(NumberKind kind, Value value, std::byte* place) {
  switch (kind) {
    case NumberKind::i8:
    case NumberKind::u8:
      return write<std::uint8_t>(static_cast<long long>(value), place);
    case NumberKind::i16:
    case NumberKind::u16:
      return write<std::uint16_t>(static_cast<long long>(value), place);
    case NumberKind::i32:
    case NumberKind::u32:
      return write<std::uint32_t>(static_cast<long long>(value), place);
    case NumberKind::i64:
    case NumberKind::u64:
      return write<std::uint64_t>(static_cast<long long>(value), place);
    case NumberKind::f32:
      return write<float>(value, place);
    case NumberKind::f64:
      return write<double>(value, place);
    case NumberKind::f16:
      return write<std::uint16_t>(bits_of_number(kHalf, static_cast<double>(value)), place);
    case NumberKind::bf16:
      return write<std::uint16_t>(bits_of_number(kBrain, static_cast<double>(value)), place);
    case NumberKind::e4m3:
      return write<std::uint8_t>(bits_of_number(kE4m3, static_cast<double>(value)), place);
    case NumberKind::e5m2:
      return write<std::uint8_t>(bits_of_number(kE5m2, static_cast<double>(value)), place);
  }
}

}  // namespace

TypeTolerance tolerance_of(NumberKind kind) {
  switch (kind) {
    case NumberKind::f16:
      return {.absolute = 1e-3, .relative = 4e-3};
    case NumberKind::bf16:
      return {.absolute = 1e-2, .relative = 3e-2};
    case NumberKind::e4m3:
      return {.absolute = 4e-3, .relative = 0.13};
    case NumberKind::e5m2:
      return {.absolute = 4e-3, .relative = 0.26};
    default:
      return {};
  }
}

std::size_t ElementType::lane_bytes() const { return kBytes[static_cast<std::size_t>(kind)]; }

ElementType element_type(const std::string& name) {
  const std::string plain = plain_name(name);
  if (const auto scalar = spellings().find(plain); scalar != spellings().end()) {
    return {scalar->second, 1};
  }
  if (plain.size() > 1 && plain.back() >= '1' && plain.back() <= '4') {
    const auto base = spellings().find(std::string_view(plain).substr(0, plain.size() - 1));
    if (base != spellings().end()) {
      return {base->second, plain.back() - '0'};
    }
  }
  if (const auto complex = complex_spellings().find(plain); complex != complex_spellings().end()) {
    return {complex->second, 2};
  }
  if (const int bytes = structure_bytes(plain); bytes > 0) {
    return {NumberKind::u8, bytes};
  }
  throw Error(
      ErrorCode::invalid_argument,
      "'" + name +
          "' is no type of an argument; there are bool, char to long long, signed or not, "
          "float, double, half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2, vectors such as "
          "float4, complex<float>, and struct<BYTES> for a structure");
}

double number_at(NumberKind kind, const std::byte* place) {
  switch (kind) {
    case NumberKind::i8:
      return read<std::int8_t>(place);
    case NumberKind::u8:
      return read<std::uint8_t>(place);
    case NumberKind::i16:
      return read<std::int16_t>(place);
    case NumberKind::u16:
      return read<std::uint16_t>(place);
    case NumberKind::i32:
      return read<std::int32_t>(place);
    case NumberKind::u32:
      return read<std::uint32_t>(place);
    case NumberKind::i64:
      return read<std::int64_t>(place);
    case NumberKind::u64:
      return read<std::uint64_t>(place);
    case NumberKind::f32:
      return read<float>(place);
    case NumberKind::f64:
      return read<double>(place);
    case NumberKind::f16:
      return number_of_bits(kHalf, number_of<std::uint16_t>(place));
    case NumberKind::bf16:
      return number_of_bits(kBrain, number_of<std::uint16_t>(place));
    case NumberKind::e4m3:
      return number_of_bits(kE4m3, number_of<std::uint8_t>(place));
    case NumberKind::e5m2:
      return number_of_bits(kE5m2, number_of<std::uint8_t>(place));
  }
  return 0.0;
}

void write_number(NumberKind kind, double value, std::byte* place) {
  write_any(kind, value, place);
}

void write_integer(NumberKind kind, long long value, std::byte* place) {
  write_any(kind, value, place);
}

}  // namespace swr::kernel_spec
