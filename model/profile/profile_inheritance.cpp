// SPDX-License-Identifier: MIT
#include "model/profile/profile_inheritance.h"

#include <swr/error.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace swr {
namespace {

using Json = nlohmann::json;

constexpr const char* kInherits = "inherits";
constexpr std::string_view kTakenOver = "Taken over from profile ";

/// What holds for one card alone, and the field by which another is its like.
constexpr std::array<std::pair<const char*, const char*>, 3> kOfOneCard{
    {{"code_factors", "sm_arch"}, {"l2_sets", "sm_count"}, {"prediction_errors", "name"}}};

[[noreturn]] void reject(const std::string& file, const std::string& problem) {
  throw Error(ErrorCode::unreadable,
              "GPU profile " + file + ", field \"" + kInherits + "\": " + problem);
}

std::string name_of_parent(const std::string& file, const Json& document) {
  const Json& name = document.at(kInherits);
  if (!name.is_string()) {
    reject(file, "write the id of a built-in profile, not " + name.dump());
  }
  return name.get<std::string>();
}

/// Fields of a chain may be taken over twice; the source names the first.
void mark_as_taken_over(Json& fields, const std::string& id) {
  for (auto& field : fields) {
    if (!field.is_object() || !field.contains("source") || !field.at("source").is_string()) {
      continue;
    }
    const auto source = field.at("source").get<std::string>();
    if (!source.starts_with(kTakenOver)) {
      field["source"] = std::string(kTakenOver) + id + ": " + source;
    }
  }
}

Json value_of(const Json& document, const char* field) {
  const auto entry = document.find(field);
  return entry != document.end() && entry->is_object() ? entry->value("value", Json()) : Json();
}

/// The parent's fields under those that the document states.
Json merged(const Json& document, Json parent, const std::string& id) {
  mark_as_taken_over(parent, id);
  Json result = parent;
  result.erase("id");
  for (const auto& [name, field] : document.items()) {
    result[name] = field;
  }
  result.erase(kInherits);
  for (const auto& [field, decides] : kOfOneCard) {
    if (!document.contains(field) && value_of(result, decides) != value_of(parent, decides)) {
      result.erase(field);
    }
  }
  return result;
}

void erase_unknown_values(Json& document) {
  std::vector<std::string> names;
  for (const auto& [name, field] : document.items()) {
    if (field.is_null()) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    document.erase(name);
  }
}

/// `chain` names the profiles that led here.
Json inherited(const std::string& file, const Json& document, const FindProfile& find,
               std::vector<std::string> chain) {
  if (!document.contains(kInherits)) {
    return document;
  }
  const std::string id = name_of_parent(file, document);
  if (std::find(chain.begin(), chain.end(), id) != chain.end()) {
    reject(file, "'" + id + "' inherits from itself; take one of the circle's links away");
  }
  const Json parent = find(id);
  if (!parent.is_object()) {
    reject(file, "'" + id +
                     "' is no built-in profile; swr-tune devices lists them, and only these can be "
                     "inherited");
  }
  chain.push_back(id);
  Json result = merged(document, inherited(file, parent, find, std::move(chain)), id);
  erase_unknown_values(result);
  return result;
}

}  // namespace

Json with_inherited_fields(const std::string& file, const Json& document, const FindProfile& find) {
  return inherited(file, document, find, {});
}

}  // namespace swr
