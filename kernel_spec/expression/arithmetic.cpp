// SPDX-License-Identifier: MIT
#include "kernel_spec/expression/arithmetic.h"

#include "core/trimmed.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr::kernel_spec {
namespace {

constexpr long long kLeast = std::numeric_limits<long long>::min();
/// The first real numbers that no whole number of 64 bits equals.
constexpr double kBeyondIntegers = 9223372036854775808.0;

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}
[[noreturn]] void reject_division() { reject("division by zero"); }
[[noreturn]] void reject_overflow() { reject("a whole number needs more than 64 bits"); }
[[noreturn]] void reject_kinds(const char* op, const Value& a, const Value& b) {
  reject(std::string(op) + " does not take " + std::string(kind_name(a.kind)) + " and " +
         std::string(kind_name(b.kind)));
}

double as_real(const Value& number) {
  return number.kind == ValueKind::real ? number.real : static_cast<double>(number.integer);
}

unsigned long long magnitude(long long value) {
  return value < 0 ? 0ULL - static_cast<unsigned long long>(value)
                   : static_cast<unsigned long long>(value);
}

// Whole numbers.

long long sum(long long a, long long b) {
  long long result = 0;
  if (__builtin_add_overflow(a, b, &result)) {
    reject_overflow();
  }
  return result;
}

long long difference(long long a, long long b) {
  long long result = 0;
  if (__builtin_sub_overflow(a, b, &result)) {
    reject_overflow();
  }
  return result;
}

long long product(long long a, long long b) {
  long long result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    reject_overflow();
  }
  return result;
}

void require_divisible(long long a, long long b) {
  if (b == 0) {
    reject_division();
  }
  if (a == kLeast && b == -1) {
    reject_overflow();
  }
}

long long floor_quotient(long long a, long long b) {
  require_divisible(a, b);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

long long floor_remainder(long long a, long long b) {
  if (b == 0) {
    reject_division();
  }
  if (b == -1) {
    return 0;
  }
  const long long remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

/// Rounded once, as Python does: the quotient gets more bits than a real number has, the last of
/// them set where something is left over.
double quotient(long long a, long long b) {
  if (b == 0) {
    reject_division();
  }
  __extension__ using Wide = unsigned __int128;
  constexpr int kBits = 58;
  const auto dividend = magnitude(a);
  const auto divisor = magnitude(b);
  const int shift = std::max(0, kBits + static_cast<int>(std::bit_width(divisor)) -
                                    static_cast<int>(std::bit_width(dividend)));
  const Wide shifted = static_cast<Wide>(dividend) << shift;
  const Wide bits = shifted / divisor | (shifted % divisor != 0 ? 1 : 0);
  const double result = std::ldexp(static_cast<double>(bits), -shift);
  return (a < 0) != (b < 0) ? -result : result;
}

long long shifted_left(long long value, long long bits) {
  constexpr long long kWidth = 64;
  if (bits < 0) {
    reject("a shift by less than 0 bits");
  }
  if (value == 0) {
    return 0;
  }
  // Of a negative number as well: the bits that are lost must all be its sign.
  const auto shifted =
      static_cast<long long>(static_cast<unsigned long long>(value) << std::min(bits, kWidth - 1));
  if (bits >= kWidth || shifted >> bits != value) {
    reject_overflow();
  }
  return shifted;
}

long long shifted_right(long long value, long long bits) {
  constexpr long long kMost = 63;
  if (bits < 0) {
    reject("a shift by less than 0 bits");
  }
  return value >> std::min(bits, kMost);
}

long long integer_power(long long base, long long exponent) {
  long long result = 1;
  while (true) {
    if ((exponent & 1) != 0) {
      result = product(result, base);
    }
    exponent >>= 1;
    if (exponent == 0) {
      return result;
    }
    base = base == 1 || base == 0 ? base : product(base, base);
  }
}

// Real numbers.

double real_quotient(double a, double b) {
  if (b == 0.0) {
    reject_division();
  }
  return a / b;
}

struct RealDivision {
  double quotient;
  double remainder;
};

/// Quotient rounded down and remainder with the sign of the divisor; zeros keep signs as in Python.
RealDivision floor_division(double a, double b) {
  if (b == 0.0) {
    reject_division();
  }
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0.0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1.0;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0.0) {
    return {std::copysign(0.0, a / b), remainder};
  }
  const double floored = std::floor(quotient);
  return {quotient - floored > 0.5 ? floored + 1.0 : floored, remainder};
}

double real_power(double base, double exponent) {
  if (base == 0.0 && exponent < 0.0) {
    reject_division();
  }
  if (base < 0.0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    reject("a power of a negative number with a broken exponent is not real");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    reject("a power is too large for a real number");
  }
  return result;
}

long long to_integer(double real) {
  if (std::isnan(real)) {
    reject("a number that is none cannot become a whole number");
  }
  if (!(real >= -kBeyondIntegers && real < kBeyondIntegers)) {
    reject_overflow();
  }
  return static_cast<long long>(real);
}

// Comparing.

std::partial_ordering order_of_numbers(long long a, double b) {
  if (std::isnan(b)) {
    return std::partial_ordering::unordered;
  }
  if (b >= kBeyondIntegers) {
    return std::partial_ordering::less;
  }
  if (b < -kBeyondIntegers) {
    return std::partial_ordering::greater;
  }
  const double whole = std::trunc(b);
  const auto order = a <=> static_cast<long long>(whole);
  return order != 0 ? std::partial_ordering(order) : 0.0 <=> (b - whole);
}

std::partial_ordering order_of_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.integer <=> b.integer;
  }
  if (a.is_integral()) {
    return order_of_numbers(a.integer, b.real);
  }
  if (b.is_integral()) {
    return 0 <=> order_of_numbers(b.integer, a.real);
  }
  return a.real <=> b.real;
}

bool are_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return order_of_numbers(a, b) == 0;
  }
  if (a.kind != b.kind) {
    return false;
  }
  return a.kind == ValueKind::text ? *a.text == *b.text
                                   : std::ranges::equal(*a.list, *b.list, are_equal);
}

std::partial_ordering order_of(const char* op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return order_of_numbers(a, b);
  }
  if (a.kind == ValueKind::text && b.kind == ValueKind::text) {
    return *a.text <=> *b.text;
  }
  if (a.kind != ValueKind::list || b.kind != ValueKind::list) {
    reject_kinds(op, a, b);
  }
  const auto [at_a, at_b] = std::ranges::mismatch(*a.list, *b.list, are_equal);
  if (at_a != a.list->end() && at_b != b.list->end()) {
    return order_of(op, *at_a, *at_b);
  }
  return a.list->size() <=> b.list->size();
}

bool is_in(const Value& item, const Value& container) {
  if (container.kind == ValueKind::list) {
    return std::ranges::any_of(*container.list,
                               [&](const Value& one) { return are_equal(item, one); });
  }
  if (container.kind != ValueKind::text || item.kind != ValueKind::text) {
    reject_kinds("in", item, container);
  }
  return container.text->find(*item.text) != std::string::npos;
}

// Operators on any values.

Value add(const Value& a, const Value& b, ValueHeap& heap) {
  if (a.is_integral() && b.is_integral()) {
    return Value::of(sum(a.integer, b.integer));
  }
  if (a.is_number() && b.is_number()) {
    return Value::of(as_real(a) + as_real(b));
  }
  if (a.kind != b.kind || a.is_number()) {
    reject_kinds("+", a, b);
  }
  if (a.kind == ValueKind::text) {
    return heap.keep(*a.text + *b.text);
  }
  heap.require_room(a.list->size() + b.list->size());
  std::vector<Value> joined = *a.list;
  joined.insert(joined.end(), b.list->begin(), b.list->end());
  return heap.keep(std::move(joined));
}

Value repeated(const std::vector<Value>& list, long long times, ValueHeap& heap) {
  const auto count = static_cast<unsigned long long>(std::max(times, 0LL));
  if (count != 0 && list.size() > ValueHeap::kMostItems / std::min(count, 1ULL << 32)) {
    heap.require_room(ValueHeap::kMostItems + 1);
  }
  std::vector<Value> items;
  for (unsigned long long i = 0; i < count && !list.empty(); ++i) {
    heap.require_room(items.size() + list.size());
    items.insert(items.end(), list.begin(), list.end());
  }
  return heap.keep(std::move(items));
}

Value multiply(const Value& a, const Value& b, ValueHeap& heap) {
  if (a.is_integral() && b.is_integral()) {
    return Value::of(product(a.integer, b.integer));
  }
  if (a.is_number() && b.is_number()) {
    return Value::of(as_real(a) * as_real(b));
  }
  if (a.kind == ValueKind::list && b.is_integral()) {
    return repeated(*a.list, b.integer, heap);
  }
  if (b.kind == ValueKind::list && a.is_integral()) {
    return repeated(*b.list, a.integer, heap);
  }
  reject_kinds("*", a, b);
}

Value power(const Value& a, const Value& b) {
  if (!a.is_integral() || !b.is_integral()) {
    return Value::of(real_power(as_real(a), as_real(b)));
  }
  return b.integer >= 0 ? Value::of(integer_power(a.integer, b.integer))
                        : Value::of(real_power(static_cast<double>(a.integer),
                                               static_cast<double>(b.integer)));
}

template <typename OnIntegers, typename OnReals>
Value on_numbers(const char* op, const Value& a, const Value& b, OnIntegers on_integers,
                 OnReals on_reals) {
  if (!a.is_number() || !b.is_number()) {
    reject_kinds(op, a, b);
  }
  return a.is_integral() && b.is_integral() ? Value::of(on_integers(a.integer, b.integer))
                                            : Value::of(on_reals(as_real(a), as_real(b)));
}

/// Bits of two truth values are a truth value, but for shifts.
template <typename OnIntegers>
Value on_bits(const char* op, const Value& a, const Value& b, bool keeps_truth,
              OnIntegers on_integers) {
  if (!a.is_integral() || !b.is_integral()) {
    reject_kinds(op, a, b);
  }
  const long long bits = on_integers(a.integer, b.integer);
  const bool is_truth = keeps_truth && a.kind == ValueKind::truth && b.kind == ValueKind::truth;
  return is_truth ? Value::of(bits != 0) : Value::of(bits);
}

Value divide_as_c(const Value& a, const Value& b) {
  return on_numbers(
      "/", a, b,
      [](long long x, long long y) {
        require_divisible(x, y);
        return x / y;
      },
      real_quotient);
}

Value modulo_as_c(const Value& a, const Value& b) {
  if (!a.is_integral() || !b.is_integral()) {
    reject_kinds("%", a, b);
  }
  if (b.integer == 0) {
    reject_division();
  }
  return Value::of(b.integer == -1 ? 0LL : a.integer % b.integer);
}

// Functions.

void require_count(const char* function, std::span<const Value> arguments, std::size_t least,
                   std::size_t most) {
  if (arguments.size() < least || arguments.size() > most) {
    reject(std::string(function) + " takes " + std::to_string(least) +
           (most == least ? "" : " to " + std::to_string(most)) + " arguments, not " +
           std::to_string(arguments.size()));
  }
}

const Value& only_number(const char* function, std::span<const Value> arguments) {
  require_count(function, arguments, 1, 1);
  if (!arguments[0].is_number()) {
    reject(std::string(function) + " takes a number, not " +
           std::string(kind_name(arguments[0].kind)));
  }
  return arguments[0];
}

template <typename Round>
Value rounded(const char* function, std::span<const Value> arguments, Round round) {
  const Value& number = only_number(function, arguments);
  return Value::of(number.is_integral() ? number.integer : to_integer(round(number.real)));
}

Value absolute(std::span<const Value> arguments) {
  const Value& number = only_number("abs", arguments);
  if (number.kind == ValueKind::real) {
    return Value::of(std::fabs(number.real));
  }
  return number.integer < 0 ? negated(number) : Value::of(number.integer);
}

/// The first of the largest, or of the smallest.
Value extreme(const char* function, std::span<const Value> arguments, bool largest) {
  std::span<const Value> items = arguments;
  if (arguments.size() == 1) {
    if (arguments[0].kind != ValueKind::list) {
      reject(std::string(function) + " takes a list or several values, not " +
             std::string(kind_name(arguments[0].kind)));
    }
    items = *arguments[0].list;
  }
  if (items.empty()) {
    reject(std::string(function) + " of nothing");
  }
  Value found = items.front();
  for (const Value& item : items.subspan(1)) {
    const auto order = order_of(largest ? ">" : "<", item, found);
    if (largest ? order > 0 : order < 0) {
      found = item;
    }
  }
  return found;
}

const std::vector<Value>& only_list(const char* function, std::span<const Value> arguments) {
  require_count(function, arguments, 1, 1);
  if (arguments[0].kind != ValueKind::list) {
    reject(std::string(function) + " takes a list, not " +
           std::string(kind_name(arguments[0].kind)));
  }
  return *arguments[0].list;
}

/// Of any number of whole numbers.
template <typename Combine>
Value folded_magnitudes(const char* function, unsigned long long made,
                        std::span<const Value> arguments, Combine combine) {
  for (const Value& argument : arguments) {
    if (!argument.is_integral()) {
      reject(std::string(function) + " takes whole numbers, not " +
             std::string(kind_name(argument.kind)));
    }
    made = combine(made, magnitude(argument.integer));
  }
  if (made > static_cast<unsigned long long>(std::numeric_limits<long long>::max())) {
    reject_overflow();
  }
  return Value::of(static_cast<long long>(made));
}

unsigned long long least_multiple(unsigned long long a, unsigned long long b) {
  unsigned long long multiple = 0;
  if (a != 0 && b != 0 && __builtin_mul_overflow(a / std::gcd(a, b), b, &multiple)) {
    reject_overflow();
  }
  return multiple;
}

Value whole_root(std::span<const Value> arguments) {
  const Value& number = only_number("isqrt", arguments);
  if (!number.is_integral() || number.integer < 0) {
    reject("isqrt takes a whole number that is not negative");
  }
  auto root = static_cast<long long>(std::sqrt(static_cast<double>(number.integer)));
  while (root > 0 && root > number.integer / root) {
    --root;
  }
  return Value::of(root);
}

/// Refuses the underscores that Python allows between digits.
Value integer_of_text(std::string_view text) {
  std::string_view digits = trimmed(text);
  digits.remove_prefix(digits.starts_with('+') && !digits.starts_with("+-") ? 1 : 0);
  long long number = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, number);
  if (error == std::errc::result_out_of_range) {
    reject_overflow();
  }
  if (error != std::errc{} || end != last) {
    reject("int takes no such text");
  }
  return Value::of(number);
}

/// Rounds the exact value of the binary number, halves to even.
Value rounded_to_digits(const Value& number, const Value& digits) {
  constexpr long long kMostDigits = 323;  // Of the smallest real number.
  if (!number.is_number() || !digits.is_integral() || digits.integer < 0) {
    reject("round takes a number and how many digits behind its point stay");
  }
  if (number.is_integral() || digits.integer > kMostDigits) {
    return number.is_integral() ? Value::of(number.integer) : number;
  }
  std::array<char, 700> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number.real,
                    std::chars_format::fixed, static_cast<int>(digits.integer));
  Value rounded = number;
  std::from_chars(buffer.data(), end, rounded.real);
  return rounded;
}

Value exponential(std::span<const Value> arguments) {
  const double number = as_real(only_number("exp", arguments));
  const double result = std::exp(number);
  if (std::isinf(result) && std::isfinite(number)) {
    reject("a power is too large for a real number");
  }
  return Value::of(result);
}

/// Of equal items the first.
Value distinct(std::span<const Value> arguments, ValueHeap& heap) {
  constexpr std::size_t kMostItems = 256;
  const std::vector<Value>& list = only_list("set", arguments);
  if (list.size() > kMostItems) {
    reject("set takes at most " + std::to_string(kMostItems) + " items");
  }
  std::vector<Value> items;
  for (const Value& item : list) {
    if (std::ranges::none_of(items, [&](const Value& one) { return are_equal(one, item); })) {
      items.push_back(item);
    }
  }
  return heap.keep(std::move(items));
}

template <typename Logarithm>
Value logarithm(const char* function, std::span<const Value> arguments, Logarithm logarithm) {
  const double number = as_real(only_number(function, arguments));
  if (number <= 0.0) {
    reject(std::string(function) + " takes a number above 0");
  }
  return Value::of(logarithm(number));
}

/// `log(x)`, `log(x, base)`.
Value natural_logarithm(std::span<const Value> arguments) {
  require_count("log", arguments, 1, 2);
  const auto of_one = [](std::span<const Value> one) {
    return logarithm("log", one, [](double x) { return std::log(x); });
  };
  const Value value = of_one(arguments.first(1));
  return arguments.size() == 1
             ? value
             : Value::of(real_quotient(value.real, of_one(arguments.last(1)).real));
}

Value whole_and_rest(std::span<const Value> arguments, ValueHeap& heap) {
  require_count("divmod", arguments, 2, 2);
  return heap.keep(
      std::vector{apply(BinaryOperator::floor_divide, arguments[0], arguments[1], heap),
                  apply(BinaryOperator::modulo, arguments[0], arguments[1], heap)});
}

Value sorted(std::span<const Value> arguments, ValueHeap& heap) {
  std::vector<Value> items = only_list("sorted", arguments);
  std::ranges::stable_sort(items,
                           [](const Value& a, const Value& b) { return order_of("<", a, b) < 0; });
  return heap.keep(std::move(items));
}

Value folded(const char* function, BinaryOperator op, long long start,
             std::span<const Value> arguments, ValueHeap& heap) {
  Value total = Value::of(start);
  for (const Value& item : only_list(function, arguments)) {
    total = apply(op, total, item, heap);
  }
  return total;
}

bool is_whole(std::span<const Value> arguments) {
  const Value& number = only_number("is_integer", arguments);
  return number.is_integral() ||
         (std::isfinite(number.real) && std::trunc(number.real) == number.real);
}

Value square_root(std::span<const Value> arguments) {
  const double number = as_real(only_number("sqrt", arguments));
  if (number < 0.0) {
    reject("sqrt takes no negative number");
  }
  return Value::of(std::sqrt(number));
}

Value length_of(std::span<const Value> arguments) {
  require_count("len", arguments, 1, 1);
  if (arguments[0].is_number()) {
    reject("len takes a list or text, not " + std::string(kind_name(arguments[0].kind)));
  }
  const std::size_t length =
      arguments[0].kind == ValueKind::text ? arguments[0].text->size() : arguments[0].list->size();
  return Value::of(static_cast<long long>(length));
}

Value range_of(std::span<const Value> arguments, ValueHeap& heap) {
  require_count("range", arguments, 1, 3);
  for (const Value& argument : arguments) {
    if (!argument.is_integral()) {
      reject("range takes whole numbers, not " + std::string(kind_name(argument.kind)));
    }
  }
  const long long start = arguments.size() == 1 ? 0 : arguments[0].integer;
  const long long stop = arguments[arguments.size() == 1 ? 0 : 1].integer;
  const long long step = arguments.size() < 3 ? 1 : arguments[2].integer;
  if (step == 0) {
    reject("range takes no step of 0");
  }
  const bool is_empty = step > 0 ? start >= stop : start <= stop;
  const unsigned long long distance =
      is_empty ? 0
               : static_cast<unsigned long long>(step > 0 ? stop : start) -
                     static_cast<unsigned long long>(step > 0 ? start : stop);
  const unsigned long long count = is_empty ? 0 : (distance - 1) / magnitude(step) + 1;
  heap.require_room(count);
  std::vector<Value> items;
  items.reserve(count);
  for (unsigned long long i = 0; i < count; ++i) {
    items.push_back(Value::of(start + static_cast<long long>(i) * step));
  }
  return heap.keep(std::move(items));
}

Value div_ceil(std::span<const Value> arguments) {
  require_count("div_ceil", arguments, 2, 2);
  if (!arguments[0].is_integral() || !arguments[1].is_integral()) {
    reject_kinds("div_ceil", arguments[0], arguments[1]);
  }
  const long long down = floor_quotient(arguments[0].integer, arguments[1].integer);
  const long long rest = floor_remainder(arguments[0].integer, arguments[1].integer);
  return Value::of(rest == 0 ? down : down + 1);
}

}  // namespace

Value apply_to_any(BinaryOperator op, const Value& a, const Value& b, ValueHeap& heap) {
  using Operator = BinaryOperator;
  switch (op) {
    case Operator::add:
      return add(a, b, heap);
    case Operator::subtract:
      return on_numbers("-", a, b, difference, [](double x, double y) { return x - y; });
    case Operator::multiply:
      return multiply(a, b, heap);
    case Operator::divide:
      return on_numbers("/", a, b, quotient, real_quotient);
    case Operator::floor_divide:
      return on_numbers("//", a, b, floor_quotient,
                        [](double x, double y) { return floor_division(x, y).quotient; });
    case Operator::modulo:
      return on_numbers("%", a, b, floor_remainder,
                        [](double x, double y) { return floor_division(x, y).remainder; });
    case Operator::power:
      if (!a.is_number() || !b.is_number()) {
        reject_kinds("**", a, b);
      }
      return power(a, b);
    case Operator::c_divide:
      return divide_as_c(a, b);
    case Operator::c_modulo:
      return modulo_as_c(a, b);
    case Operator::equal:
      return Value::of(are_equal(a, b));
    case Operator::not_equal:
      return Value::of(!are_equal(a, b));
    case Operator::less:
      return Value::of(order_of("<", a, b) < 0);
    case Operator::less_equal:
      return Value::of(order_of("<=", a, b) <= 0);
    case Operator::greater:
      return Value::of(order_of(">", a, b) > 0);
    case Operator::greater_equal:
      return Value::of(order_of(">=", a, b) >= 0);
    case Operator::in:
      return Value::of(is_in(a, b));
    case Operator::not_in:
      return Value::of(!is_in(a, b));
    case Operator::bit_and:
      return on_bits("&", a, b, true, std::bit_and<>());
    case Operator::bit_or:
      return on_bits("|", a, b, true, std::bit_or<>());
    case Operator::bit_xor:
      return on_bits("^", a, b, true, std::bit_xor<>());
    case Operator::shift_left:
      return on_bits("<<", a, b, false, shifted_left);
    case Operator::shift_right:
      return on_bits(">>", a, b, false, shifted_right);
  }
  return {};
}

Value negated(const Value& value) {
  if (value.kind == ValueKind::real) {
    return Value::of(-value.real);
  }
  if (!value.is_integral()) {
    reject("- does not take " + std::string(kind_name(value.kind)));
  }
  return Value::of(difference(0, value.integer));
}

Value unchanged_number(const Value& value) {
  if (!value.is_number()) {
    reject("+ does not take " + std::string(kind_name(value.kind)) + " alone");
  }
  return value.is_integral() ? Value::of(value.integer) : value;
}

Value item_at(const Value& list, const Value& index, ValueHeap& heap) {
  if (list.is_number() || !index.is_integral()) {
    reject("[ ] takes a list and a whole number, not " + std::string(kind_name(list.kind)) +
           " and " + std::string(kind_name(index.kind)));
  }
  const bool is_text = list.kind == ValueKind::text;
  const auto size = static_cast<long long>(is_text ? list.text->size() : list.list->size());
  const long long place = index.integer < 0 ? index.integer + size : index.integer;
  if (place < 0 || place >= size) {
    reject("index " + std::to_string(index.integer) + " is outside of the " + std::to_string(size) +
           " there are");
  }
  const auto at = static_cast<std::size_t>(place);
  return is_text ? heap.keep(std::string(1, (*list.text)[at])) : (*list.list)[at];
}

Value call(Function function, std::span<const Value> arguments, ValueHeap& heap) {
  switch (function) {
    case Function::abs:
      return absolute(arguments);
    case Function::ceil:
      return rounded("ceil", arguments, [](double x) { return std::ceil(x); });
    case Function::div_ceil:
      return div_ceil(arguments);
    case Function::floor:
      return rounded("floor", arguments, [](double x) { return std::floor(x); });
    case Function::to_real:
      return Value::of(as_real(only_number("float", arguments)));
    case Function::to_integer:
      if (arguments.size() == 1 && arguments[0].kind == ValueKind::text) {
        return integer_of_text(*arguments[0].text);
      }
      [[fallthrough]];
    case Function::trunc:
      return rounded("int", arguments, [](double x) { return x; });
    case Function::length:
      return length_of(arguments);
    case Function::to_list:
    case Function::to_tuple:
      only_list("list", arguments);
      return arguments[0];
    case Function::all:
      return Value::of(std::ranges::all_of(only_list("all", arguments), is_true));
    case Function::any:
      return Value::of(std::ranges::any_of(only_list("any", arguments), is_true));
    case Function::to_truth:
      require_count("bool", arguments, 1, 1);
      return Value::of(is_true(arguments[0]));
    case Function::to_text:
      require_count("str", arguments, 1, 1);
      return heap.keep(to_string(arguments[0]));
    case Function::gcd:
      return folded_magnitudes("gcd", 0, arguments,
                               std::gcd<unsigned long long, unsigned long long>);
    case Function::lcm:
      return folded_magnitudes("lcm", 1, arguments, least_multiple);
    case Function::isqrt:
      return whole_root(arguments);
    case Function::exp:
      return exponential(arguments);
    case Function::distinct:
      return distinct(arguments, heap);
    case Function::log:
      return natural_logarithm(arguments);
    case Function::log10:
      return logarithm("log10", arguments, [](double x) { return std::log10(x); });
    case Function::log2:
      return logarithm("log2", arguments, [](double x) { return std::log2(x); });
    case Function::sqrt:
      return square_root(arguments);
    case Function::pow:
      require_count("pow", arguments, 2, 2);
      return apply(BinaryOperator::power, arguments[0], arguments[1], heap);
    case Function::sum:
      return folded("sum", BinaryOperator::add, 0, arguments, heap);
    case Function::prod:
      return folded("prod", BinaryOperator::multiply, 1, arguments, heap);
    case Function::divmod:
      return whole_and_rest(arguments, heap);
    case Function::sorted:
      return sorted(arguments, heap);
    case Function::is_integer:
      return Value::of(is_whole(arguments));
    case Function::max:
      return extreme("max", arguments, true);
    case Function::min:
      return extreme("min", arguments, false);
    case Function::range:
      return range_of(arguments, heap);
    case Function::round:
      if (arguments.size() == 2) {
        return rounded_to_digits(arguments[0], arguments[1]);
      }
      return rounded("round", arguments, [](double x) { return std::nearbyint(x); });
  }
  return {};
}

bool is_true(const Value& value) {
  switch (value.kind) {
    case ValueKind::real:
      return value.real != 0.0;
    case ValueKind::text:
      return !value.text->empty();
    case ValueKind::list:
      return !value.list->empty();
    default:
      return value.integer != 0;
  }
}

}  // namespace swr::kernel_spec
