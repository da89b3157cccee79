// SPDX-License-Identifier: MIT
// One member of a problem or of a variant, described once: the command line, JSON, keys, the
// database and the documentation follow from it.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace swr {

/// How a member is held: as int, as bool, or as an enumeration that counts up from zero.
enum class FieldType { integer, flag, choice };

struct Field {
  std::string_view name;     ///< Spelling in JSON, in keys and in the database.
  std::string_view summary;  ///< One sentence for --help and the documentation.
  FieldType type = FieldType::integer;
  std::size_t offset = 0;  ///< Of the member in its struct, in bytes.
  int least = 0;           ///< The values that an integer may have.
  int most = 0;
  /// The spellings of a choice by enumerator, and of a flag that is spelt "off" and "on"; a flag
  /// without them is a truth value.
  std::span<const std::string_view> spellings = {};
  bool is_byte = false;  ///< A choice of at most 256, held in one byte.
  /// Set when problems or variants were stored before the field came: they have its default, with
  /// which it is not stored.
  bool came_later = false;

  bool is_text() const { return !spellings.empty(); }

  /// The member of an object of the struct; an enumerator counts from 0.
  int read(const void* object) const {
    const char* const member = static_cast<const char*>(object) + offset;
    if (type == FieldType::flag) {
      return *reinterpret_cast<const bool*>(member) ? 1 : 0;
    }
    if (is_byte) {
      return static_cast<unsigned char>(*member);
    }
    int value = 0;
    std::memcpy(&value, member, sizeof value);
    return value;
  }

  void write(void* object, int value) const {
    char* const member = static_cast<char*>(object) + offset;
    if (type == FieldType::flag) {
      *reinterpret_cast<bool*>(member) = value != 0;
    } else if (is_byte) {
      *member = static_cast<char>(value);
    } else {
      std::memcpy(member, &value, sizeof value);
    }
  }
};

}  // namespace swr
