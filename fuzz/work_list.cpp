// SPDX-License-Identifier: MIT
// Lists of problems: an object is a work list, a list are shapes as JSON, all else shapes as text.
#include "tuner/distribute/work_list.h"

#include "fuzz/harness.h"

#include <sstream>

namespace swr::fuzz {
namespace {

std::vector<Problem> read(std::string_view input) {
  if (input.starts_with('{')) {
    return read_work_list(write_input("work.json", input));
  }
  return read_shapes(write_input(input.starts_with('[') ? "shapes.json" : "shapes.txt", input));
}

}  // namespace

void run_one(std::string_view input) {
  const std::vector<Problem> problems = read(input);
  std::ostringstream written;
  write_work_list(written, problems);
  require(read_work_list(write_input("again.json", written.str())) == problems,
          "a list that was read is one that can be written and read");
  require(without_repeats(problems).size() <= problems.size(), "repeats go");
}

}  // namespace swr::fuzz
