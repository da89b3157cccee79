// SPDX-License-Identifier: MIT
// Recorded spaces, against which searches are judged.
#include "core/recorded_space.h"
#include "fuzz/harness.h"

#include <sstream>

namespace swr::fuzz {
namespace {

std::string text_of(const std::vector<RecordedSpace>& spaces) {
  std::ostringstream text;
  write_recorded_spaces(text, spaces);
  return text.str();
}

}  // namespace

void run_one(std::string_view input) {
  const auto spaces = read_recorded_spaces(write_input("tuned.spaces", input));
  for (const RecordedSpace& space : spaces) {
    require(!space.results.empty() && space.best_us() >= 0.0, "a space has results");
    (void)recorded_space_name(space.problem, space.device, space.origin);
  }
  const std::string text = text_of(spaces);
  require(text_of(read_recorded_spaces(write_input("tuned.spaces", text))) == text,
          "what was read is written alike");
}

}  // namespace swr::fuzz
