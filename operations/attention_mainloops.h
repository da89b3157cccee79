// SPDX-License-Identifier: MIT
// The spellings of Mainloop, which the operations of attention with a Hopper family share.
#pragma once

#include <array>
#include <string_view>

namespace swr {

inline constexpr std::array<std::string_view, 4> kAttentionMainloops{"plain", "mutex", "overlap",
                                                                     "overlap_ordered"};

}  // namespace swr
