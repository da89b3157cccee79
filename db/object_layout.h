// SPDX-License-Identifier: MIT
// The members of a struct as one line of JSON. The same values always give the same text, so that
// rows are found by it; text in this layout is read without a parser.
#pragma once

#include "core/json.h"
#include <swr/field.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// The JSON object in a text. `what` names it in messages.
/// Throws: Error when there is none, or it is larger than any that swr wrote.
Json parse_object(std::string_view text, std::string_view what);

/// Members in the order of the text: numbers, spellings as text, flags as 0 and 1.
class ObjectLayout {
 public:
  /// A member that has the value `left_out` is not written.
  void add(const Field& field, std::optional<int> left_out = {});

  std::string write(const void* object) const;

  /// Reads what write() wrote; false for any other text, when the object may be half set. Members
  /// that are not in the text stay as they are.
  bool read_canonical(std::string_view text, void* object) const;

  /// Reads the members in any order. Those that may be left out stay as they are when they are.
  /// Throws: Error{invalid_argument} naming the member that is not there, does not belong there or
  /// has a value that it cannot have.
  void read(const Json& json, void* object) const;

 private:
  struct Member {
    Field field;
    std::string label;                   ///< As it stands before the value.
    std::vector<std::string> spellings;  ///< In quotation marks.
    std::optional<int> left_out;
  };

  static bool take_value(std::string_view& text, const Member& member, int& value);

  std::vector<Member> members_;
};

}  // namespace swr
