// SPDX-License-Identifier: MIT
#include <swr/error.h>
#include <swr/variant.h>

#include <gtest/gtest.h>

namespace swr {
namespace {

TEST(Variant, KeyRoundTripsEveryAxis) {
  const Variant variant{.tile_m = 80,
                        .tile_n = 80,
                        .warps = 5,
                        .stages = 3,
                        .order = Order::sawtooth,
                        .persistence = Persistence::persistent,
                        .workers = 48,
                        .swizzle = Swizzle::head_sections,
                        .section_heads = 4,
                        .smem_swizzle = false};
  EXPECT_EQ(parse_variant(to_key(variant)), variant);
}

TEST(Variant, KeyHoldsTheAxesOfItsFamilyAlone) {
  const Variant hopper{.family = Family::hopper,
                       .tile_m = 192,
                       .tile_n = 96,
                       .warps = 12,
                       .order = Order::right_to_left,
                       .persistence = Persistence::snake,
                       .mainloop = Mainloop::overlap_ordered,
                       .p_operand = POperand::shared,
                       .exp2_fma_eighths = 2,
                       .unroll = 2};
  EXPECT_EQ(parse_variant(to_key(hopper)), hopper);
  EXPECT_EQ(to_key(hopper).find("smem_swizzle"), std::string::npos);
  EXPECT_EQ(to_key(Variant{}).find("mainloop"), std::string::npos);
  EXPECT_THROW(parse_variant("mainloop=overlap,family=portable"), Error);
  EXPECT_EQ(parse_variant("mainloop=overlap,family=hopper").mainloop, Mainloop::overlap);
}

TEST(Variant, EveryAxisWritesWhatItReads) {
  const Variant variant;
  for (const Axis& axis : axes()) {
    Variant copy = variant;
    axis.set(axis, copy, axis.get(variant));
    EXPECT_EQ(copy, variant) << axis.name;
  }
}

TEST(Variant, RejectsAnUnknownAxisByName) {
  EXPECT_THROW(parse_variant("tile_q=64"), Error);
  EXPECT_THROW(parse_variant("order=zigzag"), Error);
  EXPECT_THROW(parse_variant("stages=9"), Error);
  EXPECT_THROW(parse_variant("stages=two"), Error);
}

}  // namespace
}  // namespace swr
