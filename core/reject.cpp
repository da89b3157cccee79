// SPDX-License-Identifier: MIT
#include "core/reject.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace swr {

std::size_t edit_distance(std::string_view from, std::string_view to) {
  // Of the prefixes of `from`: the row in hand and the two before it.
  std::vector<std::size_t> before_last(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[to.size()];
}

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> words) {
  constexpr std::size_t kLettersPerMistake = 3;
  constexpr std::size_t kLongest = 64;  ///< The time goes by the product of the lengths.
  word = word.substr(0, kLongest);
  const auto begins = [&](const std::string& other) { return other.starts_with(word); };
  if (std::ranges::count_if(words, begins) == 1) {
    return *std::ranges::find_if(words, begins);
  }
  std::optional<std::string> nearest;
  std::size_t least = 0;
  for (const std::string& other : words) {
    const std::size_t distance = edit_distance(word, std::string_view(other).substr(0, kLongest));
    const std::size_t most = std::max(word.size(), other.size()) / kLettersPerMistake;
    if (distance <= most && (!nearest || distance < least)) {
      nearest = other;
      least = distance;
    }
  }
  return nearest;
}

}  // namespace swr
