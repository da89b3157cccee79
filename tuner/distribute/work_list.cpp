// SPDX-License-Identifier: MIT
#include "tuner/distribute/work_list.h"

#include "core/bounded_json.h"
#include "core/enum_text.h"
#include "core/files.h"
#include "core/json.h"
#include "core/operation.h"
#include "core/reject.h"
#include "core/sha256.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <ostream>
#include <sstream>
#include <utility>

namespace swr {
namespace {

constexpr const char* kFormat = "swr-work";
constexpr int kVersion = 1;
/// More than any model or cluster needs; a longer list is no list of problems.
constexpr std::size_t kMaxProblems = 1'000'000;

/// A shape as it was written, by key.
using ShapeText = std::map<std::string, std::string>;

/// Runs `read`; an error says where it happened.
template <typename Read>
auto read_at(const std::string& place, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.code(), place + ": " + error.what());
  }
}

int number_of(const std::string& key, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject(key + " takes whole numbers, not '" + text + "'");
  }
  return value;
}

std::vector<int> numbers_of(const std::string& key, const std::string& text) {
  std::vector<int> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    numbers.push_back(number_of(key, part));
  }
  if (numbers.empty()) {
    reject(key + " has no value");
  }
  return numbers;
}

/// Takes the values out of a shape, so that what is left is unknown.
class ShapeReader {
 public:
  explicit ShapeReader(ShapeText text) : text_(std::move(text)) {}

  std::optional<std::string> take(const std::string& key) {
    const auto node = text_.extract(key);
    return node ? std::optional(node.mapped()) : std::nullopt;
  }
  bool flag(const std::string& key) {
    const std::string text = take(key).value_or("false");
    if (text != "true" && text != "false") {
      reject(key + " is true or false, not '" + text + "'");
    }
    return text == "true";
  }
  void require_nothing_left(const char* known) const {
    if (!text_.empty()) {
      reject("unknown key '" + text_.begin()->first + "'; known are " + known);
    }
  }

 private:
  ShapeText text_;
};

/// Throws: Error{invalid_argument} when a shape stands for too many problems.
void require_count(const ProblemValues& values) {
  std::size_t count = 1;
  for (const auto& [name, given] : values) {
    count *= std::max<std::size_t>(1, given.size());
    if (count > kMaxProblems) {
      reject("a shape stands for more than " + std::to_string(kMaxProblems) + " problems");
    }
  }
}

/// What a shape may name of an operation, for messages.
std::string known_keys(const Operation& operation) {
  std::string known = "op";
  for (const ProblemField& field : fields(operation)) {
    known += ", " + std::string(field.option);
  }
  return known;
}

/// The values that a shape gives a field: several for one that takes lists; none where it says
/// nothing.
std::vector<int> given_values(ShapeReader& shape, const ProblemField& field) {
  const std::string key(field.option);
  if (field.type == FieldType::flag) {
    return {shape.flag(key) ? 1 : 0};
  }
  const auto text = shape.take(key);
  if (!text) {
    return {};
  }
  if (field.is_text()) {
    return {parse_enum<int>(field.spellings, *text, field.name)};
  }
  return field.takes_list ? numbers_of(key, *text) : std::vector{number_of(key, *text)};
}

std::vector<Problem> problems_of(const ShapeText& text) {
  ShapeReader shape(text);
  const Operation& operation =
      find_operation(shape.take("op").value_or(std::string(operations().front()->name())));
  ProblemValues values;
  for (const ProblemField& field : fields(operation)) {
    values[std::string(field.name)] = given_values(shape, field);
    if (field.is_required && values[std::string(field.name)].empty()) {
      reject(std::string(field.option) + " is missing");
    }
  }
  shape.require_nothing_left(known_keys(operation).c_str());
  require_count(values);
  return make_problems(operation, values);
}

/// "seq=4096 heads=32 causal"; what follows # is a remark.
ShapeText shape_of_line(const std::string& line) {
  ShapeText shape;
  std::istringstream words(line.substr(0, line.find('#')));
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const bool is_flag = equals == std::string::npos;
    const std::string key = word.substr(0, equals);
    if (!shape.emplace(key, is_flag ? "true" : word.substr(equals + 1)).second) {
      reject("'" + key + "' is there twice");
    }
  }
  return shape;
}

ShapeText shape_of_object(const Json& object) {
  if (!object.is_object()) {
    reject("a shape is an object such as {\"seq\": 4096, \"heads\": 32}");
  }
  ShapeText shape;
  for (const auto& [name, value] : object.items()) {
    std::string key = name;
    std::ranges::replace(key, '_', '-');
    shape[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return shape;
}

void append(std::vector<Problem>& all, const std::vector<Problem>& more) {
  if (more.size() > kMaxProblems - all.size()) {
    reject("more than " + std::to_string(kMaxProblems) + " problems; name fewer shapes");
  }
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Problem> read_json_shapes(const std::filesystem::path& path) {
  const Json list = read_json_file(path);
  if (!list.is_array()) {
    reject(path.string() + " holds no list of shapes");
  }
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < list.size(); ++i) {
    read_at(path.string() + ", shape " + std::to_string(i + 1), [&] {
      append(problems, problems_of(shape_of_object(list[i])));
      return true;
    });
  }
  return problems;
}

std::vector<Problem> read_text_shapes(const std::filesystem::path& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 28;
  std::istringstream file(read_regular_file(path, kMostBytes));
  std::vector<Problem> problems;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    read_at(path.string() + ", line " + std::to_string(number), [&] {
      if (const ShapeText shape = shape_of_line(line); !shape.empty()) {
        append(problems, problems_of(shape));
      }
      return true;
    });
  }
  return problems;
}

}  // namespace

std::vector<Problem> read_shapes(const std::filesystem::path& path) {
  auto problems = path.extension() == ".json" ? read_json_shapes(path) : read_text_shapes(path);
  if (problems.empty()) {
    reject(path.string() + " holds no shape");
  }
  return problems;
}

std::vector<Problem> read_model(const std::filesystem::path& path, const ModelWork& work) {
  const Json document = read_json_file(path);
  return read_at(path.string(), [&] {
    if (work.lengths.size() > kMaxProblems / std::max<std::size_t>(1, work.batches.size())) {
      reject(std::to_string(work.lengths.size()) + " lengths with " +
             std::to_string(work.batches.size()) + " batch sizes each are more than " +
             std::to_string(kMaxProblems) + " problems");
    }
    std::vector<Problem> problems;
    for (const Operation* const operation : operations()) {
      append(problems, operation->problems_of_model(document, work));
    }
    return problems;
  });
}

std::vector<Problem> without_repeats(const std::vector<Problem>& problems) {
  std::vector<Problem> once;
  std::map<std::string, bool> seen;
  for (const Problem& problem : problems) {
    if (seen.emplace(to_string(problem), true).second) {
      once.push_back(problem);
    }
  }
  return once;
}

void write_work_list(std::ostream& out, const std::vector<Problem>& problems) {
  Json document = Json::object();
  document["format"] = kFormat;
  document["version"] = kVersion;
  document["problems"] = problems;
  out << json_document(document);
}

std::vector<Problem> read_work_list(const std::filesystem::path& path) {
  const Json document = read_json_file(path);
  try {
    if (json_text(document, "format") != kFormat) {
      reject("the format is not " + std::string(kFormat));
    }
    json_integer(document, "version", kVersion, kVersion);
    const Json& list = json_field(document, "problems");
    if (!list.is_array() || list.empty() || list.size() > kMaxProblems) {
      reject("problems is no list of problems");
    }
    std::vector<Problem> problems;
    for (std::size_t i = 0; i < list.size(); ++i) {
      problems.push_back(
          read_at("problem " + std::to_string(i + 1), [&] { return list[i].get<Problem>(); }));
    }
    return problems;
  } catch (const Error& error) {
    throw Error(ErrorCode::unreadable,
                path.string() + " is no work list of swr-tune plan: " + error.what());
  }
}

namespace {

/// More workers than any cluster has.
constexpr int kMaxShards = 1'000'000;

[[noreturn]] void reject_shard(const std::string& text) {
  reject("shard '" + text + "' is not I/N with I from 0 to N-1, such as 0/8 to 7/8");
}

int number_of(std::string_view digits, const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) {
    reject_shard(text);
  }
  return value;
}

/// As wide as the largest of `count` indices, so that names sort as their numbers do.
std::string padded(int index, int count) {
  std::string text = std::to_string(index);
  return std::string(std::to_string(count - 1).size() - text.size(), '0') + text;
}

}  // namespace

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) {
    reject_shard(text);
  }
  const std::string_view view = text;
  const Shard shard{number_of(view.substr(0, slash), text),
                    number_of(view.substr(slash + 1), text)};
  if (shard.index >= shard.count || shard.count > kMaxShards) {
    reject_shard(text);
  }
  return shard;
}

std::string to_string(const Shard& shard) {
  return std::to_string(shard.index) + "/" + std::to_string(shard.count);
}

std::vector<std::size_t> share_of(const std::vector<std::string>& identities, const Shard& shard) {
  std::vector<std::pair<std::string, std::size_t>> order;
  for (const std::string& identity : identities) {
    order.emplace_back(sha256_hex(identity), order.size());
  }
  std::ranges::sort(order);
  std::vector<std::size_t> share;
  for (std::size_t dealt = 0; dealt < order.size(); ++dealt) {
    if (dealt % static_cast<std::size_t>(shard.count) == static_cast<std::size_t>(shard.index)) {
      share.push_back(order[dealt].second);
    }
  }
  std::ranges::sort(share);
  return share;
}

std::filesystem::path shard_database(const std::filesystem::path& path, const Shard& shard) {
  const bool is_directory = std::filesystem::is_directory(path) || !path.has_filename();
  std::filesystem::path file = is_directory ? path / "tuned.db" : path;
  if (shard.is_everything()) {
    return file;
  }
  const std::string suffix =
      "." + padded(shard.index, shard.count) + "-of-" + std::to_string(shard.count);
  return file.replace_filename(file.stem().string() + suffix + file.extension().string());
}

}  // namespace swr
