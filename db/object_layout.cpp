// SPDX-License-Identifier: MIT
#include "db/object_layout.h"

#include "core/bounded_json.h"
#include "core/enum_text.h"
#include "core/reject.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace swr {
namespace {

bool take(std::string_view& text, std::string_view expected) {
  const bool is_there = text.starts_with(expected);
  text.remove_prefix(is_there ? expected.size() : 0);
  return is_there;
}

int least_of(const Field& field) { return field.type == FieldType::flag ? 0 : field.least; }
int most_of(const Field& field) { return field.type == FieldType::flag ? 1 : field.most; }

bool take_integer(std::string_view& text, const Field& field, int& value) {
  const char* const end = text.data() + text.size();
  const auto [behind, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || value < least_of(field) || value > most_of(field)) {
    return false;
  }
  text.remove_prefix(static_cast<std::size_t>(behind - text.data()));
  return true;
}

int checked_value(const Json& json, const Field& field) {
  return field.is_text()
             ? parse_enum<int>(field.spellings, json_text(json, field.name), field.name)
             : static_cast<int>(json_integer(json, field.name, least_of(field), most_of(field)));
}

}  // namespace

Json parse_object(std::string_view text, std::string_view what) {
  constexpr JsonLimits kLimits{.bytes = 16384, .values = 1024, .depth = 4, .keys = 256};
  Json json = parse_json(text, std::string(what), kLimits);
  if (!json.is_object()) {
    reject(std::string(what) + " must be a JSON object");
  }
  return json;
}

void ObjectLayout::add(const Field& field, std::optional<int> left_out) {
  Member member{field, Json(field.name).dump() + ":", {}, left_out};
  std::ranges::transform(field.spellings, std::back_inserter(member.spellings),
                         [](std::string_view spelling) { return Json(spelling).dump(); });
  members_.push_back(std::move(member));
}

std::string ObjectLayout::write(const void* object) const {
  std::string text = "{";
  for (const Member& member : members_) {
    const int value = member.field.read(object);
    if (member.left_out == value) {
      continue;
    }
    text += text.size() > 1 ? "," : "";
    text += member.label;
    text += member.field.is_text() ? member.spellings[static_cast<std::size_t>(value)]
                                   : std::to_string(value);
  }
  return text + "}";
}

bool ObjectLayout::take_value(std::string_view& text, const Member& member, int& value) {
  if (!member.field.is_text()) {
    return take_integer(text, member.field, value);
  }
  const auto spelt = std::ranges::find_if(
      member.spellings, [&](const std::string& spelling) { return take(text, spelling); });
  value = static_cast<int>(spelt - member.spellings.begin());
  return spelt != member.spellings.end();
}

bool ObjectLayout::read_canonical(std::string_view text, void* object) const {
  bool is_first = true;
  if (!take(text, "{")) {
    return false;
  }
  for (const Member& member : members_) {
    std::string_view rest = text;
    int value = 0;
    if ((!is_first && !take(rest, ",")) || !take(rest, member.label)) {
      if (member.left_out) {
        continue;
      }
      return false;
    }
    if (!take_value(rest, member, value) || member.left_out == value) {
      return false;
    }
    member.field.write(object, value);
    text = rest;
    is_first = false;
  }
  return text == "}";
}

void ObjectLayout::read(const Json& json, void* object) const {
  std::size_t known = 0;
  for (const Member& member : members_) {
    if (!member.left_out || json.contains(member.field.name)) {
      member.field.write(object, checked_value(json, member.field));
      ++known;
    }
  }
  if (known == json.size()) {
    return;
  }
  for (const auto& entry : json.items()) {
    if (std::ranges::find(members_, entry.key(),
                          [](const Member& one) { return one.field.name; }) == members_.end()) {
      reject("there is no '" + entry.key() + "' that this swr knows");
    }
  }
}

}  // namespace swr
