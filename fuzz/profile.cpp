// SPDX-License-Identifier: MIT
// A GPU profile of a user's.
#include "fuzz/harness.h"
#include "model/profile/gpu_profile.h"

namespace swr::fuzz {

void run_one(std::string_view input) {
  const std::string text = profile_text(load_profile(write_input("profile.json", input).string()));
  const GpuProfile again = load_profile(write_input("profile.json", text).string());
  require(profile_text(again) == text, "what was read is written alike");
  (void)profile_for_device(again.device);
}

}  // namespace swr::fuzz
