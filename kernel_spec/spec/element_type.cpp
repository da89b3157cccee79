// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/element_type.h"

#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace swr::kernel_spec {
namespace {

/// Bits of a small real number: sign, exponent, fraction.
struct SmallReal {
  int exponent_bits;
  int fraction_bits;
  int bias;
  bool has_infinity;  ///< Else the largest exponent has numbers, and all ones are NaN.
};
const SmallReal& form_of(NumberKind kind) {
  static constexpr SmallReal kForms[]{
      {5, 10, 15, true}, {8, 7, 127, true}, {4, 3, 7, false}, {5, 2, 15, true}};
  return kForms[static_cast<std::size_t>(kind) - static_cast<std::size_t>(NumberKind::f16)];
}

}  // namespace

double number_of_bits(NumberKind kind, unsigned bits) {
  const SmallReal& form = form_of(kind);
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

unsigned bits_of_number(NumberKind kind, double number) {
  const SmallReal& form = form_of(kind);
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

namespace {

using enum NumberKind;
using Spellings = std::span<const std::pair<NumberKind, std::string_view>>;

/// Whole numbers in C's words are here as whole_number_name() spells them.
constexpr std::pair<NumberKind, std::string_view> kScalars[]{
    {i8, "|char|int8|int8_t|"},
    {u8, "|unsigned char|uchar|uint8|uint8_t|bool|byte|__nv_fp8_storage_t|"},
    {i16, "|short|int16|int16_t|"},
    {u16, "|unsigned short|ushort|uint16|uint16_t|"},
    {i32, "|int|int32|int32_t|"},
    {u32, "|unsigned int|uint|uint32|uint32_t|"},
    {i64, "|long|longlong|int64|int64_t|ptrdiff_t|intptr_t|"},
    {u64, "|unsigned long|ulong|ulonglong|uint64|uint64_t|size_t|uintptr_t|"},
    {f32, "|float|float32|"},
    {f64, "|double|float64|"},
    {f16, "|half|__half|nv_half|half_t|__half_raw|float16|float16_t|"},
    {bf16, "|bfloat16|__nv_bfloat16|nv_bfloat16|bfloat16_t|__nv_bfloat16_raw|"},
    {e4m3, "|__nv_fp8_e4m3|float8_e4m3fn|"},
    {e5m2, "|__nv_fp8_e5m2|float8_e5m2|"}};

constexpr std::pair<NumberKind, std::string_view> kPairs[]{
    {f32, "|cuComplex|cuFloatComplex|complex64|complex<float>|"},
    {f64, "|cuDoubleComplex|complex128|complex<double>|"},
    {f16, "|complex<half>|complex<__half>|"},
    {bf16, "|__nv_bfloat162|nv_bfloat162|complex<__nv_bfloat16>|"},
    {e4m3, "|__nv_fp8x2_e4m3|"},
    {e5m2, "|__nv_fp8x2_e5m2|"}};
constexpr std::pair<NumberKind, std::string_view> kFours[]{{e4m3, "|__nv_fp8x4_e4m3|"},
                                                           {e5m2, "|__nv_fp8x4_e5m2|"}};

std::optional<NumberKind> kind_spelt(std::string_view name, Spellings spellings) {
  const std::string marked = "|" + std::string(name) + "|";
  const auto found = std::ranges::find_if(
      spellings, [&](const auto& kind) { return kind.second.find(marked) != marked.npos; });
  const bool is_one = found != spellings.end() && name.find('|') == name.npos;
  return is_one ? std::optional(found->first) : std::nullopt;
}

/// "unsigned long" of "long unsigned int", as C allows the words in any order; empty for others.
std::string whole_number_name(const std::vector<std::string>& words) {
  const auto has = [&](const char* word) { return std::ranges::count(words, word) > 0; };
  static const std::set<std::string, std::less<>> kWords{"signed", "unsigned", "char",
                                                         "short",  "int",      "long"};
  if (words.empty() ||
      !std::ranges::all_of(words, [](const auto& word) { return kWords.contains(word); })) {
    return "";
  }
  const char* const size = has("char")    ? "char"
                           : has("short") ? "short"
                           : has("long")  ? "long"
                                          : "int";
  return (has("unsigned") ? "unsigned " : "") + std::string(size);
}

/// Without qualifiers, pointers, bounds of arrays and namespaces; blanks between words alone.
std::string plain_name(const std::string& name) {
  std::string text = name.substr(0, name.find('['));
  for (auto at = text.find("::"); at != text.npos; at = text.find("::")) {
    std::size_t begin = at;
    while (begin > 0 && is_name_character(text[begin - 1])) {
      --begin;
    }
    text.erase(begin, at + 2 - begin);
  }
  std::ranges::replace_if(
      text, [](char c) { return c == '*' || c == '&'; }, ' ');
  static const std::set<std::string, std::less<>> kQualifiers{
      "const", "volatile", "restrict", "__restrict", "__restrict__", "__grid_constant__"};
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    if (!kQualifiers.contains(word)) {
      words.push_back(word);
    }
  }
  std::string plain = whole_number_name(words);
  if (plain.empty()) {
    for (const std::string& word : words) {
      const bool is_apart =
          !plain.empty() && is_name_character(plain.back()) && is_name_character(word.front());
      plain += (is_apart ? " " : "") + word;
    }
  }
  // Of CUDA 13's double4_32a and the like: how they are aligned.
  const bool is_aligned = plain.ends_with("_16a") || plain.ends_with("_32a");
  return is_aligned ? plain.substr(0, plain.size() - 4) : plain;
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
void write_any(NumberKind kind, Number value, std::byte* place) {
  with_number(kind, [&]<typename To>() {
    To number{};
    if constexpr (std::is_integral_v<To>) {
      number = static_cast<To>(static_cast<long long>(value));
    } else if constexpr (std::is_floating_point_v<To>) {
      number = static_cast<To>(value);
    } else {
      number = To(static_cast<double>(value));
    }
    std::memcpy(place, &number, sizeof number);
  });
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

std::size_t ElementType::lane_bytes() const {
  return with_number(kind, []<typename Number>() { return sizeof(Number); });
}

ElementType element_type(const std::string& name) {
  if (std::ranges::count_if(name, [](char c) { return c == '*' || c == '['; }) > 1) {
    throw Error(ErrorCode::invalid_argument,
                "'" + name + "' points to pointers, which swr has no values for; pass one vector");
  }
  constexpr std::size_t kLongest = 512;
  const std::string plain = name.size() <= kLongest ? plain_name(name) : "";
  if (const auto scalar = kind_spelt(plain, kScalars)) {
    return {*scalar, 1};
  }
  if (plain.size() > 1 && plain.back() >= '1' && plain.back() <= '4') {
    if (const auto base =
            kind_spelt(std::string_view(plain).substr(0, plain.size() - 1), kScalars)) {
      return {*base, plain.back() - '0'};
    }
  }
  if (const auto part = kind_spelt(plain, kPairs)) {
    return {*part, 2};
  }
  if (const auto part = kind_spelt(plain, kFours)) {
    return {*part, 4};
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
  return with_number(
      kind, [&]<typename Number>() { return static_cast<double>(number_of<Number>(place)); });
}

void write_number(NumberKind kind, double value, std::byte* place) {
  write_any(kind, value, place);
}

void write_integer(NumberKind kind, long long value, std::byte* place) {
  write_any(kind, value, place);
}

}  // namespace swr::kernel_spec
