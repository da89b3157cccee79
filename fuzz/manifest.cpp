// SPDX-License-Identifier: MIT
// manifest.json of an exported directory, which programs that use swr read.
#include "export/manifest.h"

#include "fuzz/harness.h"

namespace swr::fuzz {

void run_one(std::string_view input) {
  write_input(kManifestFile, input);
  const std::string text = to_text(read_manifest_only(directory()));
  write_input(kManifestFile, text);
  require(to_text(read_manifest_only(directory())) == text, "what was read is written alike");
}

}  // namespace swr::fuzz
