// SPDX-License-Identifier: MIT
// A recorded space, against which searches are judged.
#include "core/recorded_space.h"
#include "fuzz/harness.h"

#include <sstream>

namespace swr::fuzz {
namespace {

std::string text_of(const RecordedSpace& space) {
  std::ostringstream text;
  write_recorded_space(text, space);
  return text.str();
}

}  // namespace

void run_one(std::string_view input) {
  const RecordedSpace space = read_recorded_space(write_input("space.json", input));
  require(!space.results.empty() && space.best_us() >= 0.0, "a space has results");
  const std::string text = text_of(space);
  require(text_of(read_recorded_space(write_input("space.json", text))) == text,
          "what was read is written alike");
  (void)recorded_space_name(space.problem, space.device, space.origin);
}

}  // namespace swr::fuzz
