// SPDX-License-Identifier: MIT
#include "kernel_spec/spec/stored_spec.h"

#include "core/bounded_json.h"
#include "kernel_spec/spec/spec_object.h"

#include <array>
#include <cstdint>

namespace swr::kernel_spec {
namespace {

constexpr long long kFormat = 1;
constexpr std::size_t kMostBytes = std::size_t{60} << 20;  ///< Databases hold cells of 64 MiB.
constexpr const char* kWhere = "stored spec";

/// A text, or a list of bytes where these are no UTF-8.
Json bytes_json(const std::string& bytes) {
  Json text = bytes;
  try {
    static_cast<void>(text.dump());
    return text;
  } catch (const Json::type_error&) {
    return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
  }
}

std::string read_bytes(const Json& json, const std::string& where) {
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (!json.is_array()) {
    refuse_spec(where, "it must be a text, or a list of bytes");
  }
  std::string bytes;
  for (const Json& byte : json) {
    if (!byte.is_number_integer() || byte < 0 || byte > 255) {
      refuse_spec(where, "a byte must be 0 to 255");
    }
    bytes += static_cast<char>(byte.get<int>());
  }
  return bytes;
}

Json texts_json(const std::map<std::string, std::string>& texts) {
  Json json = Json::object();
  for (const auto& [name, text] : texts) {
    json[name] = bytes_json(text);
  }
  return json;
}

std::map<std::string, std::string> read_texts(const SpecObject& object, const char* key) {
  std::map<std::string, std::string> texts;
  if (!object.has(key) || !object.at(key).is_object()) {
    refuse_spec(object.place(key), "it must be an object: texts by name");
  }
  for (const auto& [name, text] : object.at(key).items()) {
    texts[name] = read_bytes(text, object.place(key) + "." + name);
  }
  return texts;
}

/// Nothing for what is as usual.
void add(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) {
    json[key] = text;
  }
}

template <typename Value>
void add(Json& json, const char* key, const std::vector<Value>& values) {
  if (!values.empty()) {
    json[key] = values;
  }
}

Json parameter_json(const KernelParameter& parameter) {
  constexpr std::array kUses{"define", "launch", "constant"};
  Json json{{"values", parameter.values}};
  if (parameter.usual) {
    json["default"] = *parameter.usual;
  }
  json["as"] = kUses[static_cast<std::size_t>(parameter.use)];
  return json;
}

Json argument_json(const KernelArgument& argument) {
  constexpr std::array kFills{"", "zeros", "value", "random", "index", "file"};
  Json json{{"name", argument.name}, {"type", argument.type}};
  if (argument.size) {
    json["size"] = *argument.size;
  }
  if (argument.texture) {
    json["texture"] = texture_json(*argument.texture);
  }
  json["fill"] = kFills[static_cast<std::size_t>(argument.fill)];
  json["value"] = argument.value;
  json["low"] = argument.low;
  json["high"] = argument.high;
  json["seed"] = argument.seed;
  add(json, "file", argument.file);
  json["output"] = argument.is_output;
  json["constant"] = argument.is_constant;
  add(json, "expected", argument.expected_file);
  if (argument.absolute) {
    json["absolute"] = *argument.absolute;
  }
  if (argument.relative) {
    json["relative"] = *argument.relative;
  }
  return json;
}

Json steps_json(const std::vector<KernelStep>& steps) {
  Json all = Json::array();
  for (const KernelStep& step : steps) {
    Json json{{"entry", step.entry},
              {"block", step.block},
              {"grid", step.grid},
              {"shared_bytes", step.shared_bytes}};
    add(json, "arguments", step.arguments);
    add(json, "when", step.when);
    json["repeat"] = step.repeat;
    all.push_back(std::move(json));
  }
  return all;
}

Json reference_json(const KernelSpec& spec) {
  Json json = Json::object();
  add(json, "source", spec.reference_file);
  json["steps"] = steps_json(spec.reference);
  json["parameters"] = spec.reference_parameters;
  return json;
}

template <typename Values, typename ToJson>
Json by_name(const Values& values, ToJson&& to_json_of) {
  Json json = Json::object();
  for (const auto& value : values) {
    to_json_of(json, value);
  }
  return json;
}

/// As read_swr_json() reads it.
Json spec_json(const KernelSpec& spec) {
  Json json{{"swr_kernel", kFormat}, {"name", spec.name}};
  add(json, "summary", spec.summary);
  json["source"] = spec.source_file;
  json["problem"] =
      by_name(spec.sizes, [](Json& all, const KernelSize& size) { all[size.name] = size.usual; });
  json["parameters"] = by_name(spec.parameters, [](Json& all, const KernelParameter& parameter) {
    all[parameter.name] = parameter_json(parameter);
  });
  add(json, "constraints", spec.constraints);
  const auto named = [](Json& all, const auto& item) { all[item.first] = item.second; };
  json["defines"] = by_name(spec.defines, named);
  json["lists"] = by_name(spec.lists, named);
  add(json, "options", spec.options);
  add(json, "include", spec.include_folders);
  json["arguments"] = Json::array();
  for (const KernelArgument& argument : spec.arguments) {
    json["arguments"].push_back(argument_json(argument));
  }
  json["steps"] = steps_json(spec.steps);
  if (!spec.reference.empty()) {
    json["reference"] = reference_json(spec);
  }
  json["tolerance"] = {{"absolute", spec.absolute}, {"relative", spec.relative}};
  add(json, "flops", spec.flops);
  add(json, "bytes", spec.bytes);
  json["deadline_s"] = spec.deadline_s;
  json["compile_limit_s"] = spec.compile_limit_s;
  return json;
}

}  // namespace

std::string stored_text(const StoredSpec& stored) {
  const KernelSpec& spec = stored.spec;
  try {
    return Json{{"swr_stored_kernel", kFormat},
                {"dialect", spec.dialect == SpecDialect::c ? "c" : "python"},
                {"spec", spec_json(spec)},
                {"source", bytes_json(spec.source)},
                {"headers", texts_json(stored.files.headers)},
                {"reference_source", bytes_json(stored.files.reference_source)},
                {"reference_headers", texts_json(stored.files.reference_headers)},
                {"data_digests", stored.files.data_digests}}
        .dump();
  } catch (const Json::type_error&) {
    refuse_spec("kernel", "a name or an expression of the spec is no UTF-8");
  }
}

StoredSpec read_stored_text(std::string_view text) {
  const Json json = parse_json(std::string(text), kWhere, {.bytes = kMostBytes});
  const SpecObject object(json, kWhere,
                          {"swr_stored_kernel", "dialect", "spec", "source", "headers",
                           "reference_source", "reference_headers", "data_digests"});
  if (object.integer_or("swr_stored_kernel", 0) != kFormat) {
    refuse_spec(object.place("swr_stored_kernel"), "this swr reads format 1; use a newer one");
  }
  for (const char* const key : {"spec", "source", "reference_source"}) {
    if (!object.has(key)) {
      refuse_spec(kWhere, std::string("it needs '") + key + "'");
    }
  }
  StoredSpec stored{.spec = read_swr_json(object.at("spec"), kWhere), .files = {}};
  stored.spec.dialect = object.text("dialect") == "c" ? SpecDialect::c : SpecDialect::python;
  stored.spec.source = read_bytes(object.at("source"), object.place("source"));
  stored.files.headers = read_texts(object, "headers");
  stored.files.reference_source =
      read_bytes(object.at("reference_source"), object.place("reference_source"));
  stored.files.reference_headers = read_texts(object, "reference_headers");
  stored.files.data_digests = read_texts(object, "data_digests");
  return stored;
}

}  // namespace swr::kernel_spec
