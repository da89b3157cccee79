// SPDX-License-Identifier: MIT
// Results of other tuners, in the T4 format.
#include "tuner/t4.h"

#include "fuzz/harness.h"
#include <swr/error.h>

namespace swr::fuzz {

void run_one(std::string_view input) {
  const Json document = Json::parse(input, nullptr, false);
  if (document.is_discarded()) {
    return;
  }
  const RecordedSpace space = read_t4(document);
  const Json written = t4_document(space);
  require(read_t4(written).results.size() == space.results.size(), "as many results as were read");
}

}  // namespace swr::fuzz
