// SPDX-License-Identifier: MIT
// Keys of variants, as given on the command line and held in files.
#include "core/operation.h"
#include "fuzz/harness.h"
#include <swr/error.h>
#include <swr/variant.h>

namespace swr::fuzz {
namespace {

void read(const Operation& operation, std::string_view key) {
  try {
    const Variant variant = parse_variant(operation, key);
    require(parse_variant(operation, to_key(variant)) == variant, "a key gives its variant");
  } catch (const Error&) {
    // Most texts are no key.
  }
}

}  // namespace

void run_one(std::string_view input) {
  for (const Operation* const operation : operations()) {
    read(*operation, input);
  }
}

}  // namespace swr::fuzz
