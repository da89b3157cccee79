// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/argument_data.h"

#include "core/number_text.h"
#include "kernel_spec/spec/spec_object.h"
#include <swr/error.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace swr::kernel_spec {
namespace {

void write_value(NumberKind kind, const Value& value, std::byte* place, const std::string& where) {
  if (value.is_integral()) {
    write_integer(kind, value.integer, place);
  } else if (value.kind == ValueKind::real) {
    write_number(kind, value.real, place);
  } else {
    refuse_spec(where, "its value " + to_string(value) + " is no number");
  }
}

Value value_of(const PlannedArgument& argument, std::span<const Value> table, ValueHeap& heap) {
  try {
    return argument.value->evaluate(table, heap);
  } catch (const Error& error) {
    refuse_spec("argument " + argument.spec.name, error.what());
  }
}

/// Uniform in [0, 1), by place: the same wherever and however often it is asked.
double random_at(unsigned long long seed, unsigned long long place) {
  constexpr double kUnit = 0x1p-53;
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL + place * 0xbf58476d1ce4e5b9ULL + 1;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return static_cast<double>((x ^ (x >> 31U)) >> 11U) * kUnit;
}

void fill_random(const PlannedArgument& argument, const ElementType& type,
                 std::vector<std::byte>& bytes, unsigned long long seed) {
  const std::size_t width = type.lane_bytes();
  const bool is_unsaid = argument.spec.low == 0.0 && argument.spec.high == 1.0;
  constexpr double kUsualIntegers = 100.0;
  const double high = is_unsaid && !type.is_real() ? kUsualIntegers : argument.spec.high;
  const double span = high - argument.spec.low;
  for (std::size_t i = 0; i * width < bytes.size(); ++i) {
    const double number = argument.spec.low + span * random_at(seed + argument.spec.seed, i);
    write_number(type.kind, type.is_real() ? number : std::floor(number), bytes.data() + i * width);
  }
}

/// Every lane of element i is computed with `i`; the table has room for it at its end.
void fill_by_index(const PlannedArgument& argument, const ElementType& type,
                   std::vector<std::byte>& bytes, const Point& point) {
  std::vector<Value> table = point.table;
  table.push_back(Value::of(0LL));
  const std::size_t width = type.lane_bytes();
  ValueHeap heap;
  for (std::size_t i = 0; i * width < bytes.size(); ++i) {
    table.back() = Value::of(static_cast<long long>(i / static_cast<std::size_t>(type.lanes)));
    write_value(type.kind, value_of(argument, table, heap), bytes.data() + i * width,
                "argument " + argument.spec.name);
    heap.clear();
  }
}

void repeat_first(std::vector<std::byte>& bytes, std::size_t width) {
  for (std::size_t at = width; at < bytes.size(); at += width) {
    std::memcpy(bytes.data() + at, bytes.data(), width);
  }
}

}  // namespace

std::vector<std::byte> initial_bytes(const KernelPlan& plan, const PlannedArgument& argument,
                                     const Point& point, unsigned long long seed) {
  const std::string where = "argument " + argument.spec.name;
  const ElementType& type = argument.type_at(point);
  const auto count = static_cast<std::size_t>(plan.elements(argument, point));
  std::vector<std::byte> bytes(count * type.bytes());
  switch (argument.spec.fill) {
    case KernelFill::nothing:
      std::ranges::fill(bytes, std::byte{0xff});
      break;
    case KernelFill::zeros:
      break;
    case KernelFill::value:
      write_value(type.kind, value_of(argument, point.table, point.heap), bytes.data(), where);
      repeat_first(bytes, type.lane_bytes());
      break;
    case KernelFill::random:
      fill_random(argument, type, bytes, seed);
      break;
    case KernelFill::index:
      fill_by_index(argument, type, bytes, point);
      break;
    case KernelFill::file:
      if (argument.file.size() != bytes.size()) {
        refuse_spec(where, "its file " + argument.spec.file + " has " +
                               std::to_string(argument.file.size()) + " bytes, and " +
                               std::to_string(bytes.size()) + " are needed");
      }
      std::memcpy(bytes.data(), argument.file.data(), bytes.size());
      break;
  }
  return bytes;
}

std::vector<std::byte> scalar_bytes(const PlannedArgument& argument, const Point& point) {
  const ElementType& type = argument.type_at(point);
  std::vector<std::byte> bytes(type.bytes());
  const Value value = value_of(argument, point.table, point.heap);
  const std::string where = "argument " + argument.spec.name;
  const std::size_t bits = 8 * type.lane_bytes();
  if (!type.is_real() && bits < 64 && value.is_integral() && value.integer >> bits != 0 &&
      value.integer >> (bits - 1) != -1) {
    refuse_spec(where, "its value " + to_string(value) + " does not fit " + argument.spec.type);
  }
  write_value(type.kind, value, bytes.data(), where);
  repeat_first(bytes, type.lane_bytes());
  return bytes;
}

void make_comparable(const PlannedArgument& argument, const ElementType& type,
                     std::vector<std::byte>& bytes) {
  if (argument.types.empty()) {
    return;
  }
  const std::size_t count = bytes.size() / type.lane_bytes();
  std::vector<std::byte> numbers(count * sizeof(double));
  for (std::size_t i = 0; i < count; ++i) {
    const double number = number_at(type.kind, &bytes[i * type.lane_bytes()]);
    // Of elements that nobody writes, one NaN for all types.
    write_number(NumberKind::f64,
                 std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number,
                 &numbers[i * sizeof(double)]);
  }
  bytes = std::move(numbers);
}

namespace {

/// Errors of one output, number by number.
struct Errors {
  double squared = 0.0;
  double expected_squared = 0.0;
  std::size_t wrong = 0;
  std::size_t first = 0;  ///< The first wrong number.
};

/// Of equal bits: nothing is wrong with them, whatever they are.
template <typename Number>
double sum_of_squares(std::span<const std::byte> bytes) {
  double sum = 0.0;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Number)) {
    const auto value = static_cast<double>(number_of<Number>(&bytes[at]));
    sum += std::isfinite(value) ? value * value : 0.0;
  }
  return sum;
}

/// By blocks, most of which are equal. Outputs may have 10^8 numbers, and each variant is compared.
template <typename Number>
Errors errors_of(std::span<const std::byte> found, std::span<const std::byte> expected,
                 const PlannedArgument& argument, bool is_exact) {
  constexpr std::size_t kBlockBytes = 4096;
  Errors errors;
  for (std::size_t begin = 0; begin < found.size(); begin += kBlockBytes) {
    const std::size_t end = std::min(begin + kBlockBytes, found.size());
    if (std::memcmp(&found[begin], &expected[begin], end - begin) == 0) {
      errors.expected_squared += sum_of_squares<Number>(expected.subspan(begin, end - begin));
      continue;
    }
    for (std::size_t at = begin; at < end; at += sizeof(Number)) {
      const auto is = static_cast<double>(number_of<Number>(&found[at]));
      const auto should = static_cast<double>(number_of<Number>(&expected[at]));
      errors.expected_squared += std::isfinite(should) ? should * should : 0.0;
      if (std::memcmp(&found[at], &expected[at], sizeof(Number)) == 0) {
        continue;
      }
      const double difference = std::abs(is - should);
      errors.squared += difference * difference;
      // Not within, rather than beyond: so that NaN is wrong.
      if (is_exact || !(difference <= argument.absolute + argument.relative * std::abs(should))) {
        errors.first = errors.wrong == 0 ? at / sizeof(Number) : errors.first;
        ++errors.wrong;
      }
    }
  }
  return errors;
}

}  // namespace

ComparedOutput compare_output(const PlannedArgument& argument, std::span<const std::byte> found,
                              std::span<const std::byte> expected) {
  if (std::memcmp(found.data(), expected.data(), expected.size()) == 0) {
    return {};
  }
  const NumberKind kind = argument.compared_as();
  const std::size_t width = ElementType{.kind = kind}.lane_bytes();
  // Whole numbers have no rounding to forgive, unless the argument itself says so.
  const bool is_exact =
      kind < NumberKind::f32 && !argument.spec.absolute && !argument.spec.relative;
  const Errors errors = with_number(kind, [&]<typename Number>() {
    return errors_of<Number>(found, expected, argument, is_exact);
  });
  ComparedOutput result;
  if (errors.squared > 0.0 || std::isnan(errors.squared)) {
    const double error = std::sqrt(errors.squared / errors.expected_squared);
    result.relative_error = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
  if (errors.wrong > 0) {
    const std::size_t first = errors.first * width;
    const auto text_at = [&](std::span<const std::byte> data) {
      return general_text(number_at(kind, &data[first]), 9);
    };
    result.failure = std::to_string(errors.wrong) + " of " + std::to_string(found.size() / width) +
                     " elements of " + argument.spec.name + " are wrong; element " +
                     std::to_string(errors.first) + " is " + text_at(found) + " and should be " +
                     text_at(expected);
  }
  return result;
}

}  // namespace swr::kernel_spec
