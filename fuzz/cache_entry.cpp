// SPDX-License-Identifier: MIT
// An entry of the cubin cache, which several users may share.
#include "core/sha256.h"
#include "fuzz/harness.h"
#include "generator/cubin_cache.h"

#include <nlohmann/json.hpp>

namespace swr::fuzz {
namespace {

/// A key of the form that keys have.
const std::string kKey(64, 'a');

/// The entry with a digest that fits it: else no change would come past that check.
std::string sealed(std::string_view input) {
  const auto body = nlohmann::json::parse(input, nullptr, false);
  if (body.is_discarded()) {
    return std::string(input);
  }
  return nlohmann::json{{"kernel", body}, {"kernel_sha256", sha256_hex(body.dump())}}.dump();
}

}  // namespace

void run_one(std::string_view input) {
  static const CubinCache cache(directory());
  static const std::string cubin = "no real kernel";
  write_input("cubins/" + sha256_hex(cubin) + ".cubin", cubin);
  write_input("entries/" + kKey + ".json", sealed(input));
  if (const auto kernel = cache.find(kKey)) {
    require(kernel->source_digest == kKey, "an entry is that of its key");
    require(kernel->resources.registers_per_thread >= 0, "resources can be believed");
  }
}

}  // namespace swr::fuzz
