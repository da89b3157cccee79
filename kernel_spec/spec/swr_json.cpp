// SPDX-License-Identifier: MIT
#include "core/bounded_json.h"
#include "core/files.h"
#include "kernel_spec/spec/spec_folder.h"
#include "kernel_spec/spec/spec_object.h"
#include "kernel_spec/spec/stored_spec.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace swr::kernel_spec {
namespace {

using namespace std::string_view_literals;

constexpr std::array kAddresses{"clamp"sv, "border"sv, "wrap"sv, "mirror"sv};
constexpr std::array kFilters{"nearest"sv, "linear"sv};
constexpr std::array kCoordinates{"elements"sv, "normalized"sv};
constexpr std::array kReads{"elements"sv, "fractions"sv};

/// The place of a word; the first one where the key is not there.
template <std::size_t Count>
std::size_t place_of(const SpecObject& object, const char* key,
                     const std::array<std::string_view, Count>& words) {
  const std::string word = object.text_or(key, std::string(words.front()));
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view one : words) {
      known.append(known.empty() ? "" : ", ").append(one);
    }
    refuse_spec(object.place(key), "it must be one of " + known + ", not '" + word + "'");
  }
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace

KernelTexture read_texture(const Json& json, const std::string& where) {
  const SpecObject object(json, where, {"extent", "address", "filter", "coordinates", "read"});
  return {.extent = object.expressions("extent"),
          .address = static_cast<TextureAddress>(place_of(object, "address", kAddresses)),
          .interpolates = place_of(object, "filter", kFilters) == 1,
          .is_normalized = place_of(object, "coordinates", kCoordinates) == 1,
          .reads_fractions = place_of(object, "read", kReads) == 1};
}

Json texture_json(const KernelTexture& texture) {
  return {{"extent", texture.extent},
          {"address", kAddresses[static_cast<std::size_t>(texture.address)]},
          {"filter", kFilters[texture.interpolates ? 1 : 0]},
          {"coordinates", kCoordinates[texture.is_normalized ? 1 : 0]},
          {"read", kReads[texture.reads_fractions ? 1 : 0]}};
}

void require_texture(const KernelArgument& argument, const ElementType& type,
                     const std::string& where) {
  const KernelTexture& texture = *argument.texture;
  if (argument.size || argument.is_output || argument.is_constant) {
    refuse_spec(where, "a texture has its extent for its size, and is read alone");
  }
  if (texture.extent.empty() || texture.extent.size() > 3) {
    refuse_spec(where, "a texture's extent has one to three expressions");
  }
  if (type.lane_bytes() == 8 || type.lanes == 3) {
    refuse_spec(where,
                "a texture has elements of 8, 16 or 32 bits, or 2 or 4 of these in one; not " +
                    argument.type);
  }
  if (texture.reads_fractions && (type.is_real() || type.lane_bytes() == 4)) {
    refuse_spec(where,
                "only whole numbers of 8 or 16 bits are read as fractions, not " + argument.type);
  }
  if (texture.interpolates && !type.is_real() && !texture.reads_fractions) {
    refuse_spec(where, "the filter linear needs real elements, or \"read\": \"fractions\"");
  }
  const bool repeats =
      texture.address == TextureAddress::wrap || texture.address == TextureAddress::mirror;
  if (repeats && !texture.is_normalized) {
    refuse_spec(where, "wrap and mirror need \"coordinates\": \"normalized\"");
  }
}

namespace {

using namespace std::string_view_literals;

void read_sizes(const SpecObject& spec, KernelSpec& kernel) {
  if (!spec.has("problem")) {
    return;
  }
  const std::string where = spec.place("problem");
  if (!spec.at("problem").is_object()) {
    refuse_spec(where, "it must be an object of sizes by name");
  }
  for (const auto& [name, value] : spec.at("problem").items()) {
    add_size(kernel, name, value.dump(), where);
  }
}

ParameterUse read_use(const SpecObject& object) {
  constexpr std::array kUses{"define"sv, "launch"sv, "constant"sv};
  const std::string use = object.text_or("as", "define");
  for (std::size_t i = 0; i < kUses.size(); ++i) {
    if (kUses[i] == use) {
      return static_cast<ParameterUse>(i);
    }
  }
  refuse_spec(object.place("as"), "it must be define, launch or constant, not '" + use + "'");
}

void read_parameters(const SpecObject& spec, KernelSpec& kernel) {
  const std::string where = spec.place("parameters");
  if (!spec.has("parameters") || !spec.at("parameters").is_object()) {
    refuse_spec(where, "it must be an object: values by parameter");
  }
  for (const auto& [name, json] : spec.at("parameters").items()) {
    const std::string place = where + "." + name;
    KernelParameter& parameter = kernel.parameters.emplace_back();
    parameter.name = name;
    if (!json.is_object()) {
      parameter.values = parameter_values(json, place);
      continue;
    }
    const SpecObject object(json, place, {"values", "default", "as"});
    if (!object.has("values")) {
      refuse_spec(place, "it needs 'values'");
    }
    parameter.values = parameter_values(object.at("values"), object.place("values"));
    if (object.has("default")) {
      parameter.usual = value_text(object.at("default"), object.place("default"));
    }
    parameter.use = read_use(object);
  }
}

void read_named(const SpecObject& spec, const char* key,
                std::vector<std::pair<std::string, std::string>>& named) {
  if (!spec.has(key)) {
    return;
  }
  if (!spec.at(key).is_object()) {
    refuse_spec(spec.place(key), "it must be an object: expressions by name");
  }
  for (const auto& [name, value] : spec.at(key).items()) {
    named.emplace_back(name, expression_text(value, spec.place(key) + "." + name));
  }
}

void read_fill(const SpecObject& object, KernelArgument& argument) {
  const char* const implied = object.has("value")                       ? "value"
                              : object.has("file")                      ? "file"
                              : object.has("low") || object.has("high") ? "random"
                                                                        : "";
  const std::string fill = object.text_or("fill", implied);
  constexpr std::array kFills{""sv, "zeros"sv, "value"sv, "random"sv, "index"sv, "file"sv};
  for (std::size_t i = 0; i < kFills.size(); ++i) {
    if (kFills[i] == fill) {
      argument.fill = static_cast<KernelFill>(i);
      argument.value = object.expression_or("value", "0");
      argument.low = object.number_or("low", argument.low);
      argument.high = object.number_or("high", argument.high);
      argument.seed = static_cast<unsigned long long>(object.integer_or("seed", 0));
      argument.file = object.text_or("file", "");
      return;
    }
  }
  refuse_spec(object.place("fill"),
              "it must be zeros, value, random, index or file, not '" + fill + "'");
}

void read_argument(const Json& json, const std::string& where, KernelSpec& kernel) {
  const SpecObject object(json, where,
                          {"name", "type", "size", "value", "fill", "low", "high", "seed", "file",
                           "output", "constant", "texture", "expected", "absolute", "relative"});
  KernelArgument& argument = kernel.arguments.emplace_back();
  argument.name = object.text("name");
  argument.type = object.text("type");
  if (object.has("size")) {
    argument.size = object.expression_or("size", "");
  }
  if (object.has("texture")) {
    argument.texture = read_texture(object.at("texture"), object.place("texture"));
  }
  argument.is_output = object.flag_or("output", false);
  argument.is_constant = object.flag_or("constant", false);
  read_fill(object, argument);
  if (!argument.size && !argument.texture && !object.has("value")) {
    refuse_spec(where, "a scalar needs a 'value', a vector a 'size'");
  }
  const bool is_read_only = argument.size && argument.type.find("const") != std::string::npos;
  if (is_read_only && argument.fill == KernelFill::nothing) {
    kernel.notes.push_back("argument " + argument.name +
                           " is const and has no fill: all its bytes are 0xff");
  }
  argument.expected_file = object.text_or("expected", "");
  if (object.has("absolute")) {
    argument.absolute = object.number_or("absolute", 0.0);
  }
  if (object.has("relative")) {
    argument.relative = object.number_or("relative", 0.0);
  }
}

void read_launch(const SpecObject& object, KernelStep& step) {
  step.entry = object.text("entry");
  step.block = object.expressions("block");
  step.grid = object.expressions("grid");
  step.shared_bytes = object.expression_or("shared_bytes", "0");
}

KernelStep read_step(const Json& json, const std::string& where) {
  const SpecObject object(
      json, where, {"entry", "block", "grid", "shared_bytes", "arguments", "when", "repeat"});
  KernelStep step;
  read_launch(object, step);
  step.arguments = object.texts("arguments");
  step.when = object.expression_or("when", "");
  step.repeat = object.expression_or("repeat", "1");
  return step;
}

std::vector<KernelStep> read_steps(const Json& json, const std::string& where) {
  if (!json.is_array() || json.empty()) {
    refuse_spec(where, "it must be a list of launches");
  }
  std::vector<KernelStep> steps;
  for (std::size_t i = 0; i < json.size(); ++i) {
    steps.push_back(read_step(json[i], where + "[" + std::to_string(i) + "]"));
  }
  return steps;
}

/// Steps have all that a single launch would say.
void require_steps_alone(const SpecObject& object) {
  for (const char* const key : {"entry", "block", "grid", "shared_bytes"}) {
    if (object.has("steps") && object.has(key)) {
      refuse_spec(object.place(key), "it belongs into 'steps', which are there too");
    }
  }
}

void read_reference(const SpecObject& spec, KernelSpec& kernel) {
  if (!spec.has("reference")) {
    return;
  }
  const SpecObject object(
      spec.at("reference"), spec.place("reference"),
      {"source", "entry", "block", "grid", "shared_bytes", "arguments", "steps", "parameters"});
  kernel.reference_file = object.text_or("source", "");
  require_steps_alone(object);
  if (object.has("steps")) {
    kernel.reference = read_steps(object.at("steps"), object.place("steps"));
  } else {
    KernelStep step;
    read_launch(object, step);
    step.arguments = object.texts("arguments");
    kernel.reference.push_back(step);
  }
  if (object.has("parameters")) {
    for (const auto& [name, value] : object.at("parameters").items()) {
      kernel.reference_parameters[name] = value_text(value, object.place("parameters"));
    }
  }
}

}  // namespace

KernelSpec read_swr_json(const Json& json, const std::string& where) {
  const SpecObject spec(
      json, where,
      {"swr_kernel", "name",        "summary",         "source",    "entry",
       "block",      "grid",        "shared_bytes",    "steps",     "problem",
       "parameters", "constraints", "defines",         "lists",     "options",
       "include",    "arguments",   "reference",       "tolerance", "flops",
       "bytes",      "deadline_s",  "compile_limit_s", "objective", "objective_higher_is_better"});
  constexpr long long kFormat = 1;
  if (spec.integer_or("swr_kernel", 0) != kFormat) {
    refuse_spec(spec.place("swr_kernel"), "this swr reads format 1");
  }
  KernelSpec kernel;
  kernel.name = spec.text("name");
  kernel.summary = spec.text_or("summary", "");
  kernel.source_file = spec.text("source");
  read_sizes(spec, kernel);
  read_parameters(spec, kernel);
  kernel.constraints = spec.texts("constraints");
  read_named(spec, "defines", kernel.defines);
  if (spec.has("lists")) {
    for (const auto& [name, items] : spec.at("lists").items()) {
      kernel.lists.emplace_back(name, parameter_values(items, spec.place("lists") + "." + name));
    }
  }
  kernel.options = spec.texts("options");
  kernel.include_folders = spec.texts("include");
  if (!spec.has("arguments") || !spec.at("arguments").is_array()) {
    refuse_spec(spec.place("arguments"), "it must be a list of the kernel's parameters");
  }
  for (std::size_t i = 0; i < spec.at("arguments").size(); ++i) {
    read_argument(spec.at("arguments")[i], spec.place("arguments") + "[" + std::to_string(i) + "]",
                  kernel);
  }
  require_steps_alone(spec);
  if (spec.has("steps")) {
    kernel.steps = read_steps(spec.at("steps"), spec.place("steps"));
  } else {
    read_launch(spec, kernel.steps.emplace_back());
  }
  read_reference(spec, kernel);
  if (spec.has("tolerance")) {
    const SpecObject tolerance(spec.at("tolerance"), spec.place("tolerance"),
                               {"absolute", "relative"});
    kernel.absolute = tolerance.number_or("absolute", kernel.absolute);
    kernel.relative = tolerance.number_or("relative", kernel.relative);
  }
  kernel.flops = spec.expression_or("flops", "");
  kernel.bytes = spec.expression_or("bytes", "");
  read_objective(spec, kernel);
  kernel.deadline_s = spec.number_or("deadline_s", kernel.deadline_s);
  kernel.compile_limit_s = spec.number_or("compile_limit_s", kernel.compile_limit_s);
  if (!(kernel.deadline_s > 0) || !(kernel.compile_limit_s > 0)) {
    refuse_spec(where, "deadline_s and compile_limit_s must be above 0");
  }
  return kernel;
}

}  // namespace swr::kernel_spec

namespace swr {
namespace {

constexpr std::size_t kMostJsonBytes = std::size_t{1} << 20;

std::filesystem::path folder_of(const std::filesystem::path& file) {
  const std::filesystem::path parent = file.parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

KernelSpec read_kernel_spec(const std::filesystem::path& file) {
  const std::string text = read_regular_file(file, kernel_spec::kMostSourceBytes);
  const std::string where = file.filename().string();
  KernelSpec spec;
  if (file.extension() == ".cu" || file.extension() == ".cuh") {
    spec = kernel_spec::read_pragmas(text, where);
    spec.source_file = where;
    spec.source = text;
  } else {
    const Json json = parse_json(text, where, {.bytes = kMostJsonBytes});
    spec = kernel_spec::is_t1(json) ? kernel_spec::read_t1(json, where)
                                    : kernel_spec::read_swr_json(json, where);
  }
  kernel_spec::read_compiler_options(spec);
  spec.folder = folder_of(file);
  return spec;
}

}  // namespace swr
