// SPDX-License-Identifier: MIT
// Keys of variants, as given on the command line and held in files.
#include "fuzz/harness.h"
#include <swr/error.h>
#include <swr/variant.h>

namespace swr::fuzz {
namespace {

void read(Op op, std::string_view key) {
  try {
    const Variant variant = parse_variant(op, key);
    require(parse_variant(op, to_key(variant)) == variant, "a key gives its variant");
  } catch (const Error&) {
    // Most texts are no key.
  }
}

}  // namespace

void run_one(std::string_view input) {
  read(Op::attention, input);
  read(Op::gemm, input);
}

}  // namespace swr::fuzz
