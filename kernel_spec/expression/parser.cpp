// SPDX-License-Identifier: MIT
// Reads expressions by recursive descent, a function per level of precedence.
#include "kernel_spec/expression/expression.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <utility>

namespace swr::kernel_spec {
namespace {

using namespace std::string_view_literals;
using Kind = ExpressionNode::Kind;
using Index = std::uint32_t;

/// In the order of Function.
constexpr std::array kFunctions{
    "abs"sv, "all"sv,   "any"sv,   "bool"sv,       "ceil"sv,   "div_ceil"sv, "divmod"sv,
    "exp"sv, "float"sv, "floor"sv, "gcd"sv,        "int"sv,    "isqrt"sv,    "lcm"sv,
    "len"sv, "list"sv,  "log"sv,   "log10"sv,      "log2"sv,   "max"sv,      "min"sv,
    "pow"sv, "prod"sv,  "range"sv, "round"sv,      "sorted"sv, "sqrt"sv,     "str"sv,
    "sum"sv, "trunc"sv, "tuple"sv, "is_integer"sv, "set"sv};
constexpr std::string_view kMethod = "is_integer";  ///< Of a number; no function.
constexpr std::string_view kSet = "set";            ///< Only in `len(set(a))` and `x in set(a)`.

constexpr std::array kPythonWords{"and"sv,  "or"sv,     "not"sv,   "if"sv,   "else"sv,
                                  "for"sv,  "in"sv,     "is"sv,    "True"sv, "False"sv,
                                  "None"sv, "lambda"sv, "await"sv, "yield"sv};

/// A type of C, and the function of the casts to it.
struct CastType {
  std::string_view name;
  Function function;
};
constexpr std::array kCastTypes{
    CastType{"int", Function::to_integer},      CastType{"unsigned", Function::to_integer},
    CastType{"signed", Function::to_integer},   CastType{"long", Function::to_integer},
    CastType{"size_t", Function::to_integer},   CastType{"int32_t", Function::to_integer},
    CastType{"uint32_t", Function::to_integer}, CastType{"int64_t", Function::to_integer},
    CastType{"uint64_t", Function::to_integer}, CastType{"float", Function::to_real},
    CastType{"double", Function::to_real},      CastType{"bool", Function::to_truth}};

struct BinarySpelling {
  std::string_view spelling = {};  ///< Empty behind the last of a level.
  BinaryOperator python = BinaryOperator::add;
  BinaryOperator c = BinaryOperator::add;
};
using Operator = BinaryOperator;
/// What binds loosest comes first.
constexpr std::array kArithmetic{
    std::array{BinarySpelling{"|", Operator::bit_or, Operator::bit_or}, BinarySpelling{},
               BinarySpelling{}, BinarySpelling{}},
    std::array{BinarySpelling{"^", Operator::bit_xor, Operator::bit_xor}, BinarySpelling{},
               BinarySpelling{}, BinarySpelling{}},
    std::array{BinarySpelling{"&", Operator::bit_and, Operator::bit_and}, BinarySpelling{},
               BinarySpelling{}, BinarySpelling{}},
    std::array{BinarySpelling{"<<", Operator::shift_left, Operator::shift_left},
               BinarySpelling{">>", Operator::shift_right, Operator::shift_right}, BinarySpelling{},
               BinarySpelling{}},
    std::array{BinarySpelling{"+", Operator::add, Operator::add},
               BinarySpelling{"-", Operator::subtract, Operator::subtract}, BinarySpelling{},
               BinarySpelling{}},
    std::array{BinarySpelling{"*", Operator::multiply, Operator::multiply},
               BinarySpelling{"//", Operator::floor_divide, Operator::floor_divide},
               BinarySpelling{"/", Operator::divide, Operator::c_divide},
               BinarySpelling{"%", Operator::modulo, Operator::c_modulo}}};
constexpr std::size_t kShifts = 3;  ///< Their place in kArithmetic.
constexpr std::array kComparisons{
    BinarySpelling{"==", Operator::equal, Operator::equal},
    BinarySpelling{"!=", Operator::not_equal, Operator::not_equal},
    BinarySpelling{"<=", Operator::less_equal, Operator::less_equal},
    BinarySpelling{"<", Operator::less, Operator::less},
    BinarySpelling{">=", Operator::greater_equal, Operator::greater_equal},
    BinarySpelling{">", Operator::greater, Operator::greater}};

}  // namespace

class ExpressionParser {
 public:
  ExpressionParser(Expression& made, Dialect dialect)
      : made_(made), dialect_(dialect), tokens_(tokens_of(made.text_, dialect)) {}

  void parse() {
    skip_lambda();
    made_.root_ = expression();
    if (current().kind != TokenKind::end) {
      reject("'" + std::string(current().spelling) + "' does not continue the expression");
    }
  }

 private:
  /// `lambda p: p["x"] > 1` and `lambda x: x > 1` are their bodies: p[...] names a parameter.
  void skip_lambda() {
    if (!take_word("lambda")) {
      return;
    }
    for (lambda_ = current().spelling; !is_symbol(":"); ++at_) {
      if (current().kind != TokenKind::name && !is_symbol(",")) {
        reject("':' is missing");
      }
    }
    ++at_;
  }

  /// Counts how deep the functions below call each other.
  class Depth {
   public:
    explicit Depth(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > Expression::kMostDepth) {
        parser_.reject("it is nested more than " + std::to_string(Expression::kMostDepth) +
                       " deep");
      }
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  bool is_python() const { return dialect_ == Dialect::python; }

  [[noreturn]] void reject(const std::string& cause) const {
    reject_expression(made_.text_, current().column, cause);
  }

  bool is_symbol(std::string_view spelling) const {
    return current().kind == TokenKind::symbol && current().spelling == spelling;
  }
  bool is_word(std::string_view spelling) const {
    return is_python() && current().kind == TokenKind::name && current().spelling == spelling;
  }
  bool take_symbol(std::string_view spelling) { return is_symbol(spelling) && (++at_, true); }
  bool take_word(std::string_view spelling) { return is_word(spelling) && (++at_, true); }
  void require_symbol(std::string_view spelling) {
    if (!take_symbol(spelling)) {
      reject("'" + std::string(spelling) + "' is missing");
    }
  }
  void require_word(std::string_view spelling) {
    if (!take_word(spelling)) {
      reject("'" + std::string(spelling) + "' is missing");
    }
  }

  Index add(ExpressionNode node, std::size_t column) {
    if (made_.nodes_.size() == Expression::kMostNodes) {
      reject("it has more than " + std::to_string(Expression::kMostNodes) + " parts");
    }
    node.column = static_cast<std::uint32_t>(column);
    made_.nodes_.push_back(node);
    return static_cast<Index>(made_.nodes_.size() - 1);
  }
  Index add(Kind kind, std::size_t column, std::initializer_list<Index> operands) {
    ExpressionNode node{.kind = kind};
    std::ranges::copy(operands, node.operands);
    return add(node, column);
  }
  Index add_constant(Value value, std::size_t column) {
    return add(ExpressionNode{.kind = Kind::constant, .value = value}, column);
  }
  Index add_binary(BinaryOperator op, std::size_t column, Index a, Index b) {
    return add(ExpressionNode{.kind = Kind::binary, .op = op, .operands = {a, b, 0}}, column);
  }

  Index expression() {
    const Depth depth(*this);
    return is_python() ? python_conditional() : c_conditional();
  }

  Index python_conditional() {
    const Index value = disjunction();
    const std::size_t column = current().column;
    if (!take_word("if")) {
      return value;
    }
    const Index condition = disjunction();
    require_word("else");
    return add(Kind::conditional, column, {condition, value, expression()});
  }

  Index c_conditional() {
    const Index condition = disjunction();
    const std::size_t column = current().column;
    if (!take_symbol("?")) {
      return condition;
    }
    const Index value = expression();
    require_symbol(":");
    return add(Kind::conditional, column, {condition, value, expression()});
  }

  Index disjunction() {
    Index left = conjunction();
    for (;;) {
      const std::size_t column = current().column;
      if (is_python() ? !take_word("or") : !take_symbol("||")) {
        return left;
      }
      left = add(is_python() ? Kind::logical_or : Kind::either_true, column, {left, conjunction()});
    }
  }

  Index conjunction() {
    Index left = inversion();
    for (;;) {
      const std::size_t column = current().column;
      if (is_python() ? !take_word("and") : !take_symbol("&&")) {
        return left;
      }
      left = add(is_python() ? Kind::logical_and : Kind::both_true, column, {left, inversion()});
    }
  }

  Index inversion() {
    const std::size_t column = current().column;
    if (!take_word("not")) {
      return is_python() ? comparison() : arithmetic(0);
    }
    const Depth depth(*this);
    return add(Kind::logical_not, column, {inversion()});
  }

  template <std::size_t Count>
  std::optional<BinaryOperator> take_operator(const std::array<BinarySpelling, Count>& spellings) {
    for (const BinarySpelling& one : spellings) {
      if (!one.spelling.empty() && take_symbol(one.spelling)) {
        return is_python() ? one.python : one.c;
      }
    }
    return std::nullopt;
  }

  std::optional<BinaryOperator> take_comparison() {
    if (take_word("in")) {
      return Operator::in;
    }
    if (is_word("not")) {
      ++at_;
      require_word("in");
      return Operator::not_in;
    }
    if (is_word("is")) {
      reject("'is' compares objects; write == or !=");
    }
    return take_operator(kComparisons);
  }

  /// `a < b < c` is `a < b and b < c`. Bits bind closer than comparisons in Python, looser in C.
  Index comparison() {
    const std::size_t operand = is_python() ? 0 : kShifts;
    Index left = arithmetic(operand);
    Index all = left;
    for (bool is_first = true;; is_first = false) {
      const std::size_t column = current().column;
      const auto op = take_comparison();
      if (!op) {
        return all;
      }
      if (!is_first && !is_python()) {
        reject("comparisons cannot be chained in C; join them with &&");
      }
      const bool may_be_set = *op == Operator::in || *op == Operator::not_in;
      const Index right = may_be_set && begins_set() ? set() : arithmetic(operand);
      const Index compared = add_binary(*op, column, left, right);
      all = is_first ? compared : add(Kind::logical_and, column, {all, compared});
      left = right;
    }
  }

  bool begins_set() const {
    return is_python() && (is_symbol("{") || (is_word(kSet) && tokens_[at_ + 1].spelling == "("));
  }

  /// `{1, 2}` and `set(a)`: a list of what is distinct, where nobody asks in which order.
  Index set() {
    const std::size_t column = current().column;
    if (take_symbol("{")) {
      return call_of(Function::distinct, items({}, "}", column), column);
    }
    ++at_;
    require_symbol("(");
    const Index list = expression();
    require_symbol(")");
    return call_of(Function::distinct, list, column);
  }

  /// Operators of one level, between what binds closer.
  Index arithmetic(std::size_t level) {
    Index left = closer_than(level);
    for (;;) {
      const std::size_t column = current().column;
      const auto op = take_operator(kArithmetic[level]);
      if (!op) {
        return left;
      }
      left = add_binary(*op, column, left, closer_than(level));
    }
  }

  Index closer_than(std::size_t level) {
    if (level + 1 == kArithmetic.size()) {
      return sign();
    }
    return !is_python() && level + 1 == kShifts ? comparison() : arithmetic(level + 1);
  }

  /// C's "unsigned int" between `open` and `close`; nothing is taken where something else is there.
  std::optional<Function> take_type(std::string_view open, std::string_view close) {
    const std::size_t before = at_;
    std::optional<Function> function;
    for (at_ += is_symbol(open) ? 1 : 0; at_ > before && current().kind == TokenKind::name; ++at_) {
      const auto type = std::ranges::find(kCastTypes, current().spelling, &CastType::name);
      if (type == kCastTypes.end()) {
        break;
      }
      function = type->function;
    }
    if (function && take_symbol(close)) {
      return function;
    }
    at_ = before;
    return std::nullopt;
  }

  Index call_of(Function function, Index value, std::size_t column) {
    return add_many({.kind = Kind::call, .function = function}, {value}, column);
  }

  Index sign() {
    const std::size_t column = current().column;
    if (const auto to = is_python() ? std::nullopt : take_type("(", ")")) {
      const Depth depth(*this);
      return call_of(*to, sign(), column);
    }
    const Kind kind = is_symbol("-")   ? Kind::negation
                      : is_symbol("+") ? Kind::plus
                      : is_symbol("!") ? Kind::logical_not
                                       : Kind::constant;
    if (kind == Kind::constant && !is_symbol("~")) {
      return power();
    }
    ++at_;
    const Depth depth(*this);
    if (kind == Kind::constant) {
      const Index value = sign();
      return add_binary(Operator::bit_xor, column, value, add_constant(Value::of(-1LL), column));
    }
    return add(kind, column, {sign()});
  }

  /// Binds closer than a sign before it, and less than one behind it; groups from the right.
  Index power() {
    const Index base = item();
    const std::size_t column = current().column;
    if (!take_symbol("**")) {
      return base;
    }
    const Depth depth(*this);
    return add_binary(Operator::power, column, base, sign());
  }

  Index item() {
    Index value = atom();
    for (;;) {
      const std::size_t column = current().column;
      if (is_symbol("(")) {
        reject("only functions can be called: " + function_names());
      }
      if (take_symbol(".")) {
        value = method(value, column);
        continue;
      }
      if (!take_symbol("[")) {
        return value;
      }
      const Index place = expression();
      require_symbol("]");
      value = add(Kind::item, column, {value, place});
    }
  }

  /// (x / 2).is_integer()
  Index method(Index value, std::size_t column) {
    if (!take_word(kMethod)) {
      reject("there is one method, " + std::string(kMethod) + "()");
    }
    require_symbol("(");
    require_symbol(")");
    return call_of(Function::is_integer, value, column);
  }

  Index atom() {
    const Token token = current();
    switch (token.kind) {
      case TokenKind::integer:
        return integer(token);
      case TokenKind::real:
        return real(token);
      case TokenKind::text:
        ++at_;
        return add_constant(made_.constants_->keep(std::string(token.spelling)), token.column);
      case TokenKind::name:
        return word(token);
      case TokenKind::symbol:
        if (take_symbol("(")) {
          return parenthesised(token.column);
        }
        if (is_python() && take_symbol("[")) {
          return list(token.column);
        }
        reject("'" + std::string(token.spelling) + "' stands where a value is expected");
      case TokenKind::end:
        reject("a value is missing");
    }
    reject("a value is missing");
  }

  /// 0x1F, 0b101, 0o17, 1_000, and in C 64u.
  Index integer(const Token& token) {
    constexpr int kDecimal = 10;
    std::string digits(token.spelling);
    if (is_python()) {
      std::erase(digits, '_');
    } else {
      digits.erase(digits.find_last_not_of("uUlL") + 1);
    }
    const char prefix = digits.size() > 1 ? digits[1] : '0';
    const int base = prefix == 'x' || prefix == 'X'   ? 16
                     : prefix == 'b' || prefix == 'B' ? 2
                     : prefix == 'o' || prefix == 'O' ? 8
                                                      : kDecimal;
    digits.erase(0, base == kDecimal ? 0 : 2);
    long long value = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value, base);
    if (error == std::errc::result_out_of_range) {
      reject("a whole number needs more than 64 bits");
    }
    if (error != std::errc{} || end != last) {
      reject("a number is followed by letters");
    }
    ++at_;
    return add_constant(Value::of(value), token.column);
  }

  Index real(const Token& token) {
    double value = 0.0;
    const auto [end, error] = std::from_chars(token.spelling.data(),
                                              token.spelling.data() + token.spelling.size(), value);
    if (error != std::errc{}) {
      reject("a real number is too large or too small");
    }
    ++at_;
    return add_constant(Value::of(value), token.column);
  }

  /// One value, or a tuple, which is a list here.
  Index parenthesised(std::size_t column) {
    if (is_python() && is_symbol(")")) {
      ++at_;
      return add_many({.kind = Kind::list}, {}, column);
    }
    const Index value = expression();
    if (is_python() && take_symbol(",")) {
      return items({value}, ")", column);
    }
    require_symbol(")");
    return value;
  }

  /// Of a list, from where the next one begins.
  Index items(std::vector<Index> all, std::string_view close, std::size_t column) {
    while (!is_symbol(close)) {
      all.push_back(expression());
      if (!take_symbol(",") && !is_symbol(close)) {
        reject("',' or '" + std::string(close) + "' is missing");
      }
    }
    ++at_;
    return add_many({.kind = Kind::list}, all, column);
  }

  Index word(const Token& token) {
    ++at_;
    const bool is_true = token.spelling == "true" || (is_python() && token.spelling == "True");
    if (is_true || token.spelling == "false" || (is_python() && token.spelling == "False")) {
      return add_constant(Value::of(is_true), token.column);
    }
    if (is_python() && std::ranges::count(kPythonWords, token.spelling) > 0) {
      --at_;
      reject("'" + std::string(token.spelling) + "' stands where a value is expected");
    }
    if (const auto to = is_python() ? std::nullopt : named_cast(token)) {
      require_symbol("(");
      const Index value = expression();
      require_symbol(")");
      return call_of(*to, value, token.column);
    }
    return is_symbol("(") ? call(token) : name(token);
  }

  /// Of `static_cast<int>(a)` and `int(a)`, up to the parenthesis.
  std::optional<Function> named_cast(const Token& token) {
    if (token.spelling != "static_cast") {
      const auto type = std::ranges::find(kCastTypes, token.spelling, &CastType::name);
      return type != kCastTypes.end() && is_symbol("(") ? std::optional(type->function)
                                                        : std::nullopt;
    }
    const auto to = take_type("<", ">");
    if (!to) {
      reject("a type such as <int> is missing");
    }
    return to;
  }

  static std::string function_names() {
    std::string names;
    for (const std::string_view function : kFunctions) {
      names += function == kMethod || function == kSet
                   ? ""
                   : (names.empty() ? "" : ", ") + std::string(function);
    }
    return names;
  }

  Index call(const Token& token) {
    const auto function = std::ranges::find(kFunctions, token.spelling);
    if (function == kFunctions.end() || token.spelling == kMethod || token.spelling == kSet) {
      --at_;
      reject("there is no function '" + std::string(token.spelling) + "'; there are " +
             function_names());
    }
    require_symbol("(");
    ExpressionNode node{.kind = Kind::call,
                        .function = static_cast<Function>(function - kFunctions.begin())};
    if (const auto for_word = is_python() ? find_for() : std::nullopt) {
      const bool is_decided = node.function == Function::any || node.function == Function::all;
      const Index made = comprehension(*for_word, ")", token.column,
                                       is_decided ? node.function : Function::to_list);
      return is_decided ? made : add_many(node, {made}, token.column);
    }
    std::vector<Index> arguments;
    if (!is_symbol(")")) {
      const bool is_counted = node.function == Function::length && begins_set();
      arguments.push_back(is_counted ? set() : expression());
      while (take_symbol(",") && !is_symbol(")")) {
        arguments.push_back(expression());
      }
    }
    require_symbol(")");
    return add_many(node, arguments, token.column);
  }

  Index add_many(ExpressionNode node, const std::vector<Index>& operands, std::size_t column) {
    node.operands[0] = static_cast<Index>(made_.operand_lists_.size());
    node.operands[1] = static_cast<Index>(operands.size());
    made_.operand_lists_.insert(made_.operand_lists_.end(), operands.begin(), operands.end());
    return add(node, column);
  }

  Index name(const Token& token) {
    const auto local = std::find_if(locals_.rbegin(), locals_.rend(),
                                    [&](const auto& one) { return one.first == token.spelling; });
    if (local != locals_.rend()) {
      return add(ExpressionNode{.kind = Kind::local, .place = local->second}, token.column);
    }
    std::string_view spelling = token.spelling;
    if (spelling == lambda_ && is_symbol("[") && tokens_[at_ + 1].kind == TokenKind::text) {
      spelling = tokens_[at_ + 1].spelling;
      at_ += 2;
      require_symbol("]");
    }
    const auto known = std::ranges::find(made_.names_, spelling);
    const auto place = static_cast<Index>(known - made_.names_.begin());
    if (known == made_.names_.end()) {
      made_.names_.emplace_back(spelling);
    }
    return add(ExpressionNode{.kind = Kind::name, .place = place}, token.column);
  }

  /// Behind its opening bracket.
  Index list(std::size_t column) {
    if (const auto for_word = find_for()) {
      return comprehension(*for_word, "]", column, Function::to_list);
    }
    return items({}, "]", column);
  }

  /// The `for` of the list that begins here, before its closing bracket.
  std::optional<std::size_t> find_for() const {
    int open = 0;
    for (std::size_t i = at_; tokens_[i].kind != TokenKind::end; ++i) {
      const Token& token = tokens_[i];
      const bool is_symbol = token.kind == TokenKind::symbol;
      open += is_symbol && (token.spelling == "[" || token.spelling == "(") ? 1 : 0;
      open -= is_symbol && (token.spelling == "]" || token.spelling == ")") ? 1 : 0;
      if (open < 0) {
        return std::nullopt;
      }
      if (open == 0 && token.kind == TokenKind::name && token.spelling == "for") {
        return i;
      }
    }
    return std::nullopt;
  }

  /// The item stands before the variable that it uses, so it is read last.
  Index comprehension(std::size_t for_word, std::string_view close, std::size_t column,
                      Function function) {
    const std::size_t item = std::exchange(at_, for_word + 1);
    const Token variable = current();
    if (variable.kind != TokenKind::name ||
        std::ranges::count(kPythonWords, variable.spelling) > 0) {
      reject("the name of the list's variable is missing");
    }
    ++at_;
    require_word("in");
    ExpressionNode node{.kind = Kind::comprehension, .function = function};
    node.operands[1] = disjunction();
    node.place = made_.locals_++;
    locals_.emplace_back(variable.spelling, node.place);
    node.operands[2] = filters();
    const std::size_t end = std::exchange(at_, item);
    node.operands[0] = expression();
    if (at_ != for_word) {
      reject("'for' is missing");
    }
    locals_.pop_back();
    at_ = end;
    require_symbol(close);
    return add(node, column);
  }

  /// One condition that joins all, true without any.
  Index filters() {
    std::optional<Index> all;
    for (;;) {
      const std::size_t column = current().column;
      if (!take_word("if")) {
        return all ? *all : add_constant(Value::of(true), column);
      }
      const Index condition = disjunction();
      all = all ? add(Kind::logical_and, column, {*all, condition}) : condition;
    }
  }

  Expression& made_;
  Dialect dialect_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::pair<std::string_view, Index>> locals_;
  std::string_view lambda_;  ///< Of a lambda, its first name; else empty.
};

Expression::Expression(std::string text, Dialect dialect)
    : text_(std::move(text)), constants_(std::make_shared<ValueHeap>()) {
  ExpressionParser(*this, dialect).parse();
}

}  // namespace swr::kernel_spec
