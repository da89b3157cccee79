// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/element_type.h"

#include <swr/error.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>

namespace swr::kernel_spec {
namespace {

constexpr std::array<std::size_t, 10> kBytes{1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

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
                                                                  {"float64", f64}};
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
    if (word != "const" && word != "__restrict__" && word != "volatile") {
      plain += (plain.empty() ? "" : " ") + word;
    }
  }
  return plain;
}

template <typename Number>
double read(const std::byte* place) {
  Number number{};
  std::memcpy(&number, place, sizeof number);
  return static_cast<double>(number);
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
  }
}

}  // namespace

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
  throw Error(ErrorCode::invalid_argument,
              "'" + name +
                  "' is no type of an argument; there are char to long long, signed or not, float, "
                  "double and their vectors such as float4");
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
