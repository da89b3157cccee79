// SPDX-License-Identifier: MIT
// Attention over unequal sequences as an operation: problems, draws of lengths, its space, its
// kernels on four chips and its model.
#include "operations/attention_serving/serving_attention.h"

#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention_serving/lengths.h"
#include "operations/attention_serving/parts.h"
#include "tests/operations/attention_serving/prompt.h"
#include "tests/templates/attention/portable/chips.h"
#include "tests/support/test.h"
#include <swr/generator.h>

namespace swr {
namespace {

using test::kServingPrompt;

constexpr int kFamilyCount = 7;

const ServingAttentionProblem kDecode{.batch = 8,
                                      .heads_q = 32,
                                      .heads_kv = 8,
                                      .seq_q = 1,
                                      .seq_kv = 8192,
                                      .head_dim = 128,
                                      .head_dim_v = 128,
                                      .dtype = DType::bf16};

ServingAttentionProblem with(ServingAttentionProblem problem, auto change) {
  change(problem);
  return problem;
}

TEST(ServingAttentionProblem, RefusesWhatNoKernelServes) {
  using P = ServingAttentionProblem;
  for (const P& wrong : {
           with(kDecode, [](P& p) { p.batch = 0; }),
           with(kDecode, [](P& p) { p.heads_kv = 5; }),
           with(kDecode, [](P& p) { p.head_dim = 72; }),
           with(kDecode, [](P& p) { p.head_dim_v = 512; }),
           with(kDecode, [](P& p) { p.page_size = -1; }),
           with(kDecode, [](P& p) { p.window = 8; }),
       }) {
    EXPECT_THROW(validate(Problem(wrong)), Error);
  }
  EXPECT_NO_THROW(validate(Problem(with(kDecode, [](P& p) {
    p.mask = ServingMask::window;
    p.window = 1023;
    p.page_size = 0;
    p.head_dim = 192;
  }))));
  EXPECT_EQ(to_string(Problem(kDecode)),
            "attention_serving b8 h32/8 s1/8192 d128 bf16 causal page16 equal");
}

TEST(ServingAttentionLengths, StayWithinTheirBoundAndAreTheSameEachTime) {
  for (int family = 0; family < kFamilyCount; ++family) {
    const ServingAttentionProblem problem = with(kDecode, [&](ServingAttentionProblem& p) {
      p.batch = 40;
      p.seq_q = 5;
      p.lengths = static_cast<LengthFamily>(family);
    });
    const DrawnLengths lengths = draw_lengths(problem);
    EXPECT_EQ(lengths.keys, draw_lengths(problem).keys);
    ASSERT_EQ(lengths.keys.size(), 40U);
    for (std::size_t i = 0; i < lengths.keys.size(); ++i) {
      EXPECT_LE(lengths.keys[i], 8192);
      EXPECT_LE(lengths.queries[i], std::min(5, lengths.keys[i]));
      EXPECT_TRUE(lengths.keys[i] > 0 || problem.lengths == LengthFamily::some_empty);
    }
    const bool equal = std::ranges::count(lengths.keys, 8192) == 40;
    EXPECT_EQ(equal, problem.lengths == LengthFamily::equal);
  }
}

TEST(ServingAttentionLengths, EveryPageIsHeldOnceAndNoneBehindAnEnd) {
  for (const bool padded : {false, true}) {
    const ServingAttentionProblem problem = with(kDecode, [&](ServingAttentionProblem& p) {
      p.batch = 30;
      p.page_size = 7;
      p.leftpad = padded;
      p.lengths = LengthFamily::some_empty;
    });
    const DrawnLengths lengths = draw_lengths(problem);
    const DrawnPages pages = draw_pages(problem, lengths, 5);
    std::set<int> held;
    for (int i = 0; i < problem.batch; ++i) {
      const int keys = lengths.keys[static_cast<std::size_t>(i)];
      for (int entry = 0; entry < pages.width; ++entry) {
        const int id = pages.table[static_cast<std::size_t>(i * pages.width + entry)];
        const int rows = keys == 0 ? 0 : keys + (padded ? 3 : 0);
        EXPECT_EQ(id >= 0, entry * 7 < rows);
        EXPECT_TRUE(id < 0 || held.insert(id).second);
        EXPECT_LT(id, pages.pool);
      }
    }
    EXPECT_LT(static_cast<int>(held.size()), pages.pool) << "some are nobody's";
  }
}

/// What the definitions say, pair by pair.
TEST(ServingAttentionLengths, FlopsAndBytesCountWhatIsSeen) {
  for (const int window : {0, 3, 100}) {
    for (const ServingMask mask : {ServingMask::full, ServingMask::causal, ServingMask::window}) {
      ServingAttentionProblem problem = kDecode;
      problem.mask = mask;
      problem.window = mask == ServingMask::window ? window : 0;
      for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 50}, {7, 7}, {5, 33}, {40, 300}}) {
        double pairs = 0.0;
        std::set<int> seen;
        for (int query = 0; query < queries; ++query) {
          const int position = query + keys - queries;
          for (int key = 0; key < keys; ++key) {
            const bool sees = mask == ServingMask::full ||
                              (key <= position &&
                               (mask == ServingMask::causal || position - key <= problem.window));
            pairs += sees ? 1.0 : 0.0;
            if (sees) {
              seen.insert(key);
            }
          }
        }
        EXPECT_EQ(visible_pairs(problem, queries, keys), pairs);
        EXPECT_EQ(visible_keys(problem, queries, keys), static_cast<int>(seen.size()));
      }
    }
  }
  // 8 sequences of 8192 keys: K and V of 8 heads, Q and O of 32, 4 bytes for each of 512 pages.
  const CompulsoryBytes bytes = compulsory_bytes(Problem(kDecode));
  EXPECT_EQ(bytes.read, 8LL * (8192 * 8 * 256 * 2 + 32 * 128 * 2 + 512 * 4));
  EXPECT_EQ(bytes.write, 8LL * 32 * 128 * 2);
  EXPECT_EQ(flop_count(Problem(kDecode)), 4.0 * 128 * 32 * 8 * 8192);
}

TEST(ServingAttentionSpace, HoldsEveryLegalChoiceOnce) {
  for (const int sm_arch : {80, 90, 120}) {
    for (const ServingAttentionProblem& problem : {kDecode, kServingPrompt}) {
      const SearchSpace space = enumerate_space(problem, device_of(sm_arch), {});
      EXPECT_GT(space.variants.size(), 20U);
      for (const Variant& one : space.variants) {
        EXPECT_EQ(std::ranges::count(space.variants, one), 1) << to_key(one);
        EXPECT_EQ(parse_variant(serving_attention_operation(), to_key(one)), one);
      }
    }
  }
  SpaceOptions one_tile;
  one_tile.tiles = {{.tile_m = 32, .tile_n = 64, .warps = 2}};
  one_tile.restrictions["stages"] = {2LL};
  for (const Variant& one : enumerate_space(kDecode, device_of(90), one_tile).variants) {
    const auto& variant = one.as<ServingAttentionVariant>();
    EXPECT_EQ(variant.tile_m * variant.warps * variant.stages, 32 * 2 * 2);
  }
}

TEST(ServingAttentionSpace, OneSequenceAloneIsDealtByIndex) {
  for (const int batch : {1, 8}) {
    const ServingAttentionProblem problem = with(kDecode, [&](auto& p) { p.batch = batch; });
    EXPECT_EQ(default_variant(problem, device_of(90)).deal,
              batch == 1 ? Deal::direct : Deal::ranges);
  }
}

TEST(ServingAttentionSpace, SaysWhyAVariantIsDropped) {
  using V = ServingAttentionVariant;
  const std::pair<V, std::string> dropped[] = {
      {{.tile_m = 24}, "tile_shape"},
      {{.tile_n = 48, .warps = 4}, "tile_shape"},
      {{.tile_m = 16, .tile_n = 64, .warps = 1}, "look_ups"},
      {{.persistence = Persistence::persistent}, "ranges"},
      {{.deal = Deal::direct, .item_overhead = 2}, "ranges"},
      {{.persistence = Persistence::persistent, .deal = Deal::whole, .least_units = 8}, "ranges"},
      {{.workers = 132, .deal = Deal::whole}, "worker_count"},
      {{.order = Order::sawtooth, .deal = Deal::whole}, "local_iterations"},
      {{.section_heads = 33}, "sections"},
      {{.tile_m = 128, .tile_n = 128, .warps = 8, .stages = 4}, "shared_memory"},
      {{.tile_m = 128, .tile_n = 128, .warps = 4, .stages = 1}, "registers"},
  };
  for (const auto& [variant, constraint] : dropped) {
    const auto found = check_constraints(kDecode, variant, device_of(90));
    ASSERT_TRUE(found) << to_key(variant);
    EXPECT_EQ(found->constraint, constraint) << found->reason;
  }
  const V runs{.page_copy = PageCopy::run16};
  EXPECT_FALSE(check_constraints(kDecode, runs, device_of(90)));
  for (const ServingAttentionProblem& problem :
       {with(kDecode, [](ServingAttentionProblem& p) { p.page_size = 8; }),
        with(kDecode, [](ServingAttentionProblem& p) { p.page_size = 0; }),
        with(kDecode, [](ServingAttentionProblem& p) { p.leftpad = true; })}) {
    EXPECT_EQ(check_constraints(problem, runs, device_of(90))->constraint, "page_copy");
  }
  const ServingAttentionProblem alone = with(kDecode, [](auto& p) { p.heads_kv = 32; });
  EXPECT_EQ(check_constraints(alone, V{.pack_gqa = true}, device_of(90))->constraint, "pack_gqa");
}

TEST(ServingAttentionSpace, TheDefaultIsLegalOnEveryChip) {
  for (const int sm_arch : {80, 90, 120, 121}) {
    for (const auto& [head_dim, head_dim_v] :
         {std::pair{64, 64}, {128, 128}, {192, 128}, {256, 256}}) {
      for (const int seq_q : {1, 3, 40, 4096}) {
        for (const int heads_kv : {1, 8, 32}) {
          const ServingAttentionProblem problem = with(kDecode, [&](ServingAttentionProblem& p) {
            p.head_dim = head_dim;
            p.head_dim_v = head_dim_v;
            p.seq_q = seq_q;
            p.heads_kv = heads_kv;
          });
          const Variant usual = default_variant(Problem(problem), device_of(sm_arch));
          const auto broken = check_constraints(problem, usual, device_of(sm_arch));
          EXPECT_FALSE(broken) << to_string(Problem(problem)) << ": " << broken->reason;
        }
      }
    }
  }
}

TEST(ServingAttentionKernel, DrawnVariantsCompileCleanForFourChips) {
  const Generator generator({});
  std::mt19937 random(5);
  for (const int sm_arch : {80, 90, 120, 121}) {
    const ServingAttentionProblem& problem =
        sm_arch == 90 || sm_arch == 121 ? kDecode : kServingPrompt;
    const std::vector<Variant> space = enumerate_space(problem, device_of(sm_arch), {}).variants;
    const Variant& variant = space[random() % space.size()];
    const CompiledKernel kernel = generator.compile(problem, variant, sm_arch);
    EXPECT_EQ(kernel.entry, "swr_serving_attention");
    EXPECT_EQ(kernel.may_overlap, sm_arch >= 90);
    EXPECT_FALSE(check_compiled(problem, variant, device_of(sm_arch), kernel.resources))
        << to_key(variant);
  }
  EXPECT_GT(generator
                .compile_template("reference/serving_attention_reference.cu",
                                  "swr_serving_attention_reference", 90)
                .cubin.size(),
            0U);
}

/// What a launch decides is not compiled in, and what is compiled in tells kernels apart.
TEST(ServingAttentionKernel, VariantsThatDifferInTheLaunchShareTheirConfiguration) {
  const Generator generator({});
  const ServingAttentionVariant usual;
  ServingAttentionVariant other = usual;
  other.workers = 132;
  other.item_overhead = 2;
  other.least_units = 8;
  other.section_heads = 4;
  other.item_order = ItemOrder::folded;
  EXPECT_EQ(generator.config_header(kDecode, usual), generator.config_header(kDecode, other));
  EXPECT_EQ(serving_attention_operation().without_launch_choices(other), Variant(usual));
  other = usual;
  other.page_copy = PageCopy::run16;
  EXPECT_NE(generator.config_header(kDecode, usual), generator.config_header(kDecode, other));
}

TEST(ServingAttentionModel, TellsMemoryFromMatrixWorkAndEvenFromUneven) {
  const auto model = serving_attention_operation().model()->make_predictor(load_profile("h200"));
  const auto predict = [&](const ServingAttentionProblem& problem) {
    return model->predict(problem, default_variant(Problem(problem), device_of(90)), {}, 2);
  };
  const Prediction decode = predict(kDecode);
  EXPECT_GT(decode.dram_us, decode.matrix_us);
  EXPECT_GT(decode.time_us, decode.dram_us);
  EXPECT_LT(decode.time_us, 2.0 * decode.dram_us);
  const Prediction prompt = predict(kServingPrompt);
  EXPECT_GT(prompt.matrix_us, prompt.dram_us);
  // A giant alone: Q tiles dealt whole, or in as many parts as others, leave CTAs idle that ranges
  // keep busy.
  const ServingAttentionProblem giant = with(kDecode, [](ServingAttentionProblem& p) {
    p.batch = 64;
    p.lengths = LengthFamily::one_giant;
  });
  ServingAttentionVariant ranges{.pack_gqa = true};
  ServingAttentionVariant whole{
      .persistence = Persistence::persistent, .pack_gqa = true, .deal = Deal::whole};
  const ServingAttentionVariant direct{.pack_gqa = true, .deal = Deal::direct};
  for (const ServingAttentionVariant& other : {whole, direct}) {
    EXPECT_LT(2.0 * model->predict(giant, ranges, {}, 2).time_us,
              model->predict(giant, other, {}, 2).time_us);
  }
}

}  // namespace
}  // namespace swr
