// SPDX-License-Identifier: MIT
#include "tuner/work_list.h"

#include "core/json.h"
#include <swr/error.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>

namespace swr {
namespace {

constexpr const char* kFormat = "swr-work";
constexpr int kVersion = 1;
/// More than any model or cluster needs; a longer list is no list of problems.
constexpr std::size_t kMaxProblems = 1'000'000;

/// A shape as it was written, by key.
using ShapeText = std::map<std::string, std::string>;

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

std::ifstream open(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw Error(ErrorCode::not_found, "cannot read " + path.string());
  }
  return file;
}

Json read_json(const std::filesystem::path& path) {
  std::ifstream file = open(path);
  Json document = Json::parse(file, nullptr, false);
  if (document.is_discarded()) {
    throw Error(ErrorCode::unreadable, path.string() + " is not JSON");
  }
  return document;
}

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
  int number(const std::string& key, int otherwise) {
    const auto text = take(key);
    return text ? number_of(key, *text) : otherwise;
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

std::string required(ShapeReader& shape, const std::string& key) {
  const auto text = shape.take(key);
  if (!text) {
    reject(key + " is missing");
  }
  return *text;
}

void require_few(std::size_t problems) {
  if (problems > kMaxProblems) {
    reject("more than " + std::to_string(kMaxProblems) +
           " problems; name fewer lengths and batches");
  }
}

std::vector<Problem> attention_problems(ShapeReader& shape) {
  const AttentionProblem usual;
  AttentionProblem problem;
  problem.heads_q = shape.number("heads", usual.heads_q);
  problem.heads_kv = shape.number("kv-heads", problem.heads_q);
  problem.head_dim = shape.number("head-dim", usual.head_dim);
  problem.dtype = parse_dtype(shape.take("dtype").value_or("fp16"));
  problem.causal = shape.flag("causal");
  problem.alignment_bytes = shape.number("alignment", usual.alignment_bytes);
  const std::string seq = required(shape, "seq");
  const auto seq_kv = shape.take("seq-kv");
  const auto batches = numbers_of("batch", shape.take("batch").value_or("1"));
  shape.require_nothing_left(
      "op, seq, seq-kv, batch, heads, kv-heads, head-dim, dtype, causal, alignment");
  const auto lengths = numbers_of("seq", seq);
  require_few(lengths.size() * batches.size());
  std::vector<Problem> problems;
  for (const int length : lengths) {
    for (const int batch : batches) {
      problem.batch = batch;
      problem.seq_q = length;
      problem.seq_kv = seq_kv ? number_of("seq-kv", *seq_kv) : length;
      problems.emplace_back(problem);
    }
  }
  return problems;
}

std::vector<Problem> gemm_problems(ShapeReader& shape) {
  const GemmProblem usual;
  GemmProblem problem;
  problem.dtype = parse_dtype(shape.take("dtype").value_or("fp16"));
  problem.output =
      parse_output_type(shape.take("output").value_or(std::string(to_string(problem.dtype))));
  problem.layout = parse_gemm_layout(shape.take("layout").value_or("nt"));
  problem.reads_c = shape.flag("reads-c");
  problem.alignment_bytes = shape.number("alignment", usual.alignment_bytes);
  problem.batch = shape.number("batch", usual.batch);
  const std::string m = required(shape, "m");
  problem.n = number_of("n", required(shape, "n"));
  problem.k = number_of("k", required(shape, "k"));
  shape.require_nothing_left("op, m, n, k, batch, dtype, output, layout, reads-c, alignment");
  std::vector<Problem> problems;
  for (const int rows : numbers_of("m", m)) {
    problem.m = rows;
    problems.emplace_back(problem);
  }
  return problems;
}

std::vector<Problem> problems_of(const ShapeText& text) {
  ShapeReader shape(text);
  const Op op = parse_op(shape.take("op").value_or("attention"));
  std::vector<Problem> problems = op == Op::gemm ? gemm_problems(shape) : attention_problems(shape);
  for (const Problem& problem : problems) {
    validate(problem);
  }
  return problems;
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
  require_few(all.size() + more.size());
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Problem> read_json_shapes(const std::filesystem::path& path) {
  const Json list = read_json(path);
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
  std::ifstream file = open(path);
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

/// A number of the model; published configurations say null for what follows from the others.
std::optional<int> model_number(const Json& config, const char* key) {
  constexpr int kMost = 1 << 24;
  if (!config.contains(key) || config[key].is_null()) {
    return std::nullopt;
  }
  return static_cast<int>(json_integer(config, key, 1, kMost));
}

int required_number(const Json& config, const char* key) {
  const auto number = model_number(config, key);
  if (!number) {
    reject(std::string(key) + " is missing");
  }
  return *number;
}

int head_dim_of(const Json& config, int heads) {
  if (const auto given = model_number(config, "head_dim")) {
    return *given;
  }
  const int hidden_size = required_number(config, "hidden_size");
  if (hidden_size % heads != 0) {
    reject("hidden_size " + std::to_string(hidden_size) + " is no multiple of " +
           std::to_string(heads) + " heads, and there is no head_dim");
  }
  return hidden_size / heads;
}

DType model_dtype(const Json& config) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key) && config[key] == "bfloat16") {
      return DType::bf16;
    }
  }
  return DType::fp16;
}

/// Models of several kinds of input keep their language model's numbers apart.
const Json& attention_part(const Json& config) {
  const bool is_nested = config.is_object() && !config.contains("num_attention_heads") &&
                         config.contains("text_config");
  return is_nested ? config["text_config"] : config;
}

std::vector<Problem> model_problems(const Json& document, const ModelWork& work) {
  const Json& config = attention_part(document);
  if (!config.is_object()) {
    reject("it is no model's configuration");
  }
  AttentionProblem problem;
  problem.heads_q = required_number(config, "num_attention_heads");
  problem.heads_kv = model_number(config, "num_key_value_heads").value_or(problem.heads_q);
  problem.head_dim = head_dim_of(config, problem.heads_q);
  problem.dtype = work.dtype.value_or(model_dtype(config));
  problem.causal = work.causal;
  std::vector<Problem> problems;
  for (const int length : work.lengths) {
    for (const int batch : work.batches) {
      problem.batch = batch;
      problem.seq_q = problem.seq_kv = length;
      validate(problem);
      problems.emplace_back(problem);
    }
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
  const Json document = read_json(path);
  return read_at(path.string(), [&] { return model_problems(document, work); });
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
  const Json document = read_json(path);
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

}  // namespace swr
