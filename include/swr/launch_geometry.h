// SPDX-License-Identifier: MIT
// The numbers of one launch. Self-contained plain data: exported packages carry this very file.
#pragma once

namespace swr {

/// How a compiled variant is launched for one problem on one device.
struct LaunchGeometry {
  int grid_x = 0;   ///< CTAs; the other grid dimensions are 1.
  int block_x = 0;  ///< Threads per CTA.
  int dynamic_smem_bytes = 0;
  int section_heads = 1;  ///< Value of AttentionParams::section_heads.
  /// Bytes behind AttentionParams::partials, and words behind arrivals; 0 without splits.
  long long partials_bytes = 0;
  long long arrival_words = 0;
};

}  // namespace swr
