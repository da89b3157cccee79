// SPDX-License-Identifier: MIT
// Results of other tuners, in the T4 format.
#include "core/bounded_json.h"
#include "fuzz/harness.h"
#include "report/other_formats.h"

namespace swr::fuzz {

void run_one(std::string_view input) {
  const RecordedSpace space = read_t4(parse_json(input, "the results"));
  const Json written = t4_document(space);
  require(read_t4(written).results.size() == space.results.size(), "as many results as were read");
}

}  // namespace swr::fuzz
