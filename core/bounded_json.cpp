// SPDX-License-Identifier: MIT
#include "core/bounded_json.h"

#include "core/files.h"
#include <swr/error.h>

#include <algorithm>
#include <locale.h>
#include <utility>
#include <vector>

namespace swr {
namespace {

[[noreturn]] void reject(const std::string& name, const std::string& cause) {
  throw Error(ErrorCode::unreadable, name + " " + cause);
}

/// Takes what nlohmann's parsers find, value by value, and puts lists and objects together when
/// they end: an ordered_json that grows copies all that is below it.
class Builder {
 public:
  Builder(std::string_view text, bool is_binary, const std::string& name, const JsonLimits& limits)
      : text_(text), is_binary_(is_binary), name_(name), limits_(limits) {}

  Json take() { return std::move(root_); }

  // The interface of nlohmann's sax_parse(). Limits throw, so that the error names them.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string& text) {
    if (!text.empty() && text.find_first_of(".eE") == text.npos) {
      reject(name_,
             "has the whole number " + text.substr(0, 40) + ", which needs more than 64 bits");
    }
    return add(value);
  }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t& value) { return add(Json::binary(std::move(value))); }
  bool start_object(std::size_t /*size*/) { return begin(); }
  bool start_array(std::size_t /*size*/) { return begin(); }
  bool key(std::string& value) {
    count();
    if (open_.back().members.size() == limits_.keys) {
      reject(name_, "has an object with more than " + std::to_string(limits_.keys) + " keys");
    }
    open_.back().key = std::move(value);
    return true;
  }
  bool end_array() {
    Json list = Json::array();
    auto& items = list.get_ref<Json::array_t&>();
    items.reserve(open_.back().members.size());
    for (auto& [key, value] : open_.back().members) {
      items.push_back(std::move(value));
    }
    return end(std::move(list));
  }
  bool end_object() {
    require_distinct_keys();
    Json object = Json::object();
    auto& members = object.get_ref<Json::object_t&>();
    members.reserve(open_.back().members.size());
    for (auto& [key, value] : open_.back().members) {
      members.emplace_back(std::move(key), std::move(value));
    }
    return end(std::move(object));
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*cause*/) {
    if (is_binary_) {
      reject(name_, "is not CBOR (byte " + std::to_string(position) + ")");
    }
    // The parser has read what it does not take.
    const std::size_t read = std::min(position, text_.size());
    const std::size_t at = read - (read > 0 ? 1 : 0);
    const std::string_view before = text_.substr(0, at);
    const std::size_t line = static_cast<std::size_t>(std::ranges::count(before, '\n')) + 1;
    const std::size_t column = at - (before.rfind('\n') + 1) + 1;
    const bool is_comment = text_.substr(at).starts_with('/') || text_.substr(at).starts_with('#');
    reject(name_, "is not JSON (line " + std::to_string(line) + ", column " +
                      std::to_string(column) +
                      (is_comment                ? ": comments are no JSON)"
                       : position > text_.size() ? ": it ends too early)"
                                                 : ")"));
  }

 private:
  /// A list or object whose end is to come. Members of a list have no key.
  struct Open {
    std::vector<std::pair<std::string, Json>> members;
    std::string key;
  };

  void count() {
    if (++values_ > limits_.values) {
      reject(name_, "holds more than " + std::to_string(limits_.values) + " values");
    }
  }

  bool begin() {
    count();
    if (open_.size() == limits_.depth) {
      reject(name_, "nests lists and objects more than " + std::to_string(limits_.depth) + " deep");
    }
    open_.emplace_back();
    return true;
  }

  bool end(Json value) {
    open_.pop_back();
    put(std::move(value));
    return true;
  }

  template <typename Value>
  bool add(Value&& value) {
    count();
    put(Json(std::forward<Value>(value)));
    return true;
  }

  void put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      Open& into = open_.back();
      into.members.emplace_back(std::move(into.key), std::move(value));
    }
  }

  void require_distinct_keys() const {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : open_.back().members) {
      keys.push_back(key);
    }
    std::ranges::sort(keys);
    if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) {
      constexpr std::size_t kShown = 40;
      reject(name_, "has the key '" + std::string(twice->substr(0, kShown)) + "' twice");
    }
  }

  std::string_view text_;
  bool is_binary_;
  const std::string& name_;
  const JsonLimits& limits_;
  std::vector<Open> open_;
  Json root_;
  std::size_t values_ = 0;
};

/// nlohmann's parser reads numbers with strtod(), and takes the first byte of the locale's decimal
/// point for all of it: for as long as this lives, this thread has the locale of C.
class ClassicLocale {
 public:
  ClassicLocale() : former_(uselocale(classic())) {}
  ~ClassicLocale() { uselocale(former_); }
  ClassicLocale(const ClassicLocale&) = delete;
  ClassicLocale& operator=(const ClassicLocale&) = delete;

 private:
  static locale_t classic() {
    static const locale_t only = newlocale(LC_ALL_MASK, "C", nullptr);
    return only;
  }

  locale_t former_;
};

Json parse(std::string_view text, Json::input_format_t format, const std::string& name,
           const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    reject(name, "is longer than " + std::to_string(limits.bytes) + " bytes");
  }
  const ClassicLocale classic;
  Builder builder(text, format != Json::input_format_t::json, name, limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder, format)) {
    reject(name, "is not JSON");
  }
  return builder.take();
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  return parse(text, Json::input_format_t::json, name, limits);
}

Json parse_cbor(std::string_view bytes, const std::string& name, const JsonLimits& limits) {
  return parse(bytes, Json::input_format_t::cbor, name, limits);
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json(read_regular_file(path, limits.bytes), path.string(), limits);
}

}  // namespace swr
