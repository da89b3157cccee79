// SPDX-License-Identifier: MIT
// Attention over unequal sequences as an operation: problems, draws of lengths, its space, its
// kernels on four chips and its model.
#include "operations/attention_serving/serving_attention.h"

#include "core/operation.h"
#include "model/predictor.h"
#include "model/profile/gpu_profile.h"
#include "operations/attention_serving/lengths.h"
#include "operations/attention_serving/parts.h"
#include "operations/attention_serving/tensor_maps.h"
#include "tests/operations/attention_serving/prompt.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include "tests/support/with.h"
#include <swr/generator.h>

namespace swr {
namespace {

using test::kServingPrompt;
using P = ServingAttentionProblem;

constexpr int kFamilyCount = 7;

const P kDecode{.batch = 8,
                .heads_q = 32,
                .heads_kv = 8,
                .seq_q = 1,
                .seq_kv = 8192,
                .head_dim = 128,
                .head_dim_v = 128,
                .dtype = DType::bf16};

TEST(ServingAttentionProblem, RefusesWhatNoKernelServes) {
  for (const P& wrong : {
           with(kDecode, &P::batch, 0),
           with(kDecode, &P::heads_kv, 5),
           with(kDecode, &P::head_dim, 72),
           with(kDecode, &P::head_dim_v, 512),
           with(kDecode, &P::page_size, -1),
           with(kDecode, &P::window, 8),
       }) {
    EXPECT_THROW(validate(Problem(wrong)), Error);
  }
  EXPECT_NO_THROW(validate(Problem(with(kDecode, &P::mask, ServingMask::window, &P::window, 1023,
                                        &P::page_size, 0, &P::head_dim, 192))));
  EXPECT_EQ(to_string(Problem(kDecode)),
            "attention_serving b8 h32/8 s1/8192 d128 bf16 causal page16 equal");
}

TEST(ServingAttentionLengths, StayWithinTheirBoundAndAreTheSameEachTime) {
  for (int family = 0; family < kFamilyCount; ++family) {
    const P problem =
        with(kDecode, &P::batch, 40, &P::seq_q, 5, &P::lengths, static_cast<LengthFamily>(family));
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
    const P problem = with(kDecode, &P::batch, 30, &P::page_size, 7, &P::leftpad, padded,
                           &P::lengths, LengthFamily::some_empty);
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
      P problem = kDecode;
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
    for (const P& problem : {kDecode, kServingPrompt}) {
      const SearchSpace space = enumerate_space(problem, device_of(sm_arch), {});
      EXPECT_GT(space.variants.size(), 20U);
      for (const Variant& one : space.variants) {
        EXPECT_EQ(std::ranges::count(space.variants, one), 1) << to_key(one);
        EXPECT_EQ(parse_variant(serving_attention_operation(), to_key(one)), one);
      }
    }
  }
  SpaceOptions one_tile{.tiles = {{.tile_m = 32, .tile_n = 64, .warps = 2}}};
  one_tile.restrictions["stages"] = {2LL};
  for (const Variant& one : enumerate_space(kDecode, device_of(90), one_tile).variants) {
    const auto& variant = one.as<ServingAttentionVariant>();
    EXPECT_EQ(variant.tile_m * variant.warps * variant.stages, 32 * 2 * 2);
  }
}

TEST(ServingAttentionSpace, OneSequenceAloneIsDealtByIndex) {
  for (const int batch : {1, 8}) {
    const P problem = with(kDecode, &P::batch, batch);
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
    EXPECT_EQ(dropped_by(kDecode, variant, 90), constraint) << to_key(variant);
  }
  const V runs{.page_copy = PageCopy::run16};
  EXPECT_EQ(dropped_by(kDecode, runs, 90), "");
  for (const P& problem : {with(kDecode, &P::page_size, 8), with(kDecode, &P::page_size, 0),
                           with(kDecode, &P::leftpad, true)}) {
    EXPECT_EQ(dropped_by(problem, runs, 90), "page_copy");
  }
  const P alone = with(kDecode, &P::heads_kv, 32);
  EXPECT_EQ(dropped_by(alone, V{.pack_gqa = true}, 90), "pack_gqa");
}

TEST(ServingAttentionSpace, TheDefaultIsLegalOnEveryChip) {
  for (const int sm_arch : {80, 90, 120, 121}) {
    for (const auto& [head_dim, head_dim_v] :
         {std::pair{64, 64}, {128, 128}, {192, 128}, {256, 256}}) {
      for (const int seq_q : {1, 3, 40, 4096}) {
        for (const int heads_kv : {1, 8, 32}) {
          const P problem = with(kDecode, &P::head_dim, head_dim, &P::head_dim_v, head_dim_v,
                                 &P::seq_q, seq_q, &P::heads_kv, heads_kv);
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
    const P& problem = sm_arch == 90 || sm_arch == 121 ? kDecode : kServingPrompt;
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
  const auto predict = [&](const P& problem) {
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
  const P giant = with(kDecode, &P::batch, 64, &P::lengths, LengthFamily::one_giant);
  ServingAttentionVariant ranges{.pack_gqa = true};
  ServingAttentionVariant whole{
      .persistence = Persistence::persistent, .pack_gqa = true, .deal = Deal::whole};
  const ServingAttentionVariant direct{.pack_gqa = true, .deal = Deal::direct};
  for (const ServingAttentionVariant& other : {whole, direct}) {
    EXPECT_LT(2.0 * model->predict(giant, ranges, {}, 2).time_us,
              model->predict(giant, other, {}, 2).time_us);
  }
}

// Boxes of the Hopper family hold the rows that they are meant to, end where a sequence does, and
// touch nothing else, whatever the layout: the copy engine's arithmetic, done on the host.

/// What the driver was last asked to encode.
struct Encoded {
  cuuint32_t rank = 0;
  const char* address = nullptr;
  std::array<cuuint64_t, 5> sizes{};
  std::array<cuuint64_t, 4> strides{};
  std::array<cuuint32_t, 5> box{};
};
std::vector<Encoded> encoded;

CUresult remember(CUtensorMap* /*map*/, CUtensorMapDataType /*type*/, cuuint32_t rank,
                  void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                  const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave /*i*/,
                  CUtensorMapSwizzle /*s*/, CUtensorMapL2promotion /*p*/,
                  CUtensorMapFloatOOBfill fill) {
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || steps[0] != 1 || rank != 5) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Encoded one{.rank = rank, .address = static_cast<const char*>(address)};
  std::copy_n(sizes, 5, one.sizes.begin());
  std::copy_n(strides, 4, one.strides.begin());
  std::copy_n(box, 5, one.box.begin());
  encoded.push_back(one);
  return CUDA_SUCCESS;
}

/// Where the box at `corner` has its element (column, row), modulo 2^64 as the copy engine adds;
/// nothing outside of the map.
std::optional<std::uintptr_t> element_at(const Encoded& map, std::array<long long, 5> corner,
                                         int column, int row) {
  corner[0] += column;
  corner[1] += row;
  auto address = reinterpret_cast<std::uintptr_t>(map.address) + 2 * corner[0];
  for (std::size_t d = 0; d < 5; ++d) {
    if (corner[d] < 0 || corner[d] >= static_cast<long long>(map.sizes[d])) {
      return std::nullopt;
    }
    address += d == 0 ? 0 : static_cast<std::uintptr_t>(corner[d]) * map.strides[d - 1];
  }
  return address;
}

constexpr int kHeadDim = 128;
constexpr int kHeads = 4;
constexpr TensorStrides kStrides{.batch = 1LL << 20, .head = kHeadDim, .seq = kHeads * kHeadDim};

ServingAttentionParams params_of(const char* memory) {
  static constexpr int kSome = 0;
  ServingAttentionParams params;
  params.q = params.k = params.v = memory;
  params.o = const_cast<char*>(memory);
  params.q_strides = params.k_strides = params.v_strides = params.o_strides = kStrides;
  params.batch = 3;
  params.heads_q = params.heads_kv = kHeads;
  params.max_seq_q = params.max_seq_kv = 1000;
  params.lengths.cu_seqlens_q = &kSome;
  params.pages = {.table = &kSome, .pages_per_sequence = 8, .page_size = 64};
  return params;
}

ServingMapPlan plan_of_rows(int rows) {
  return {.q_box = {64, 64, 128}, .kv_box = {64, rows, 128}, .head_dim = kHeadDim};
}

TEST(ServingTensorMaps, BoxesHoldTheRowsOfASequenceAndNoOthers) {
  const std::vector<char> memory(64);
  LaunchCalls calls;
  calls.tensor_map_encode_tiled = remember;
  ServingMaps maps;
  std::mt19937 random(3);
  for (const int rows : {8, 16, 64, 128}) {
    encoded.clear();
    ASSERT_EQ(encode_serving_maps(calls, plan_of_rows(rows), params_of(memory.data()), maps),
              CUDA_SUCCESS);
    ASSERT_EQ(encoded.size(), 4U);
    const Encoded& keys = encoded[1];
    EXPECT_EQ(keys.address, memory.data())
        << "a copy that lies outside may read where the map begins";
    for (int draw = 0; draw < 200; ++draw) {
      const int first = static_cast<int>(random() % 5000);
      const int live = static_cast<int>(random() % static_cast<unsigned>(rows + 1));
      const int head = static_cast<int>(random() % kHeads);
      const int page = static_cast<int>(random() % 1000000U);
      const CutPlace place = cut_place(maps.steps.k, page, first, live);
      for (int row = 0; row < rows; ++row) {
        const auto found = element_at(keys, {64, place.cut, place.row, head, kCutLength}, 5, row);
        ASSERT_EQ(found.has_value(), row < live) << first << " " << live << " " << row;
        if (found) {
          EXPECT_EQ(*found - reinterpret_cast<std::uintptr_t>(memory.data()),
                    2 * static_cast<std::uintptr_t>(page * kStrides.batch + head * kStrides.head +
                                                    (first + row) * kStrides.seq + 64 + 5));
        }
      }
    }
  }
}

/// Byte `offset` of what the copy engine writes, swizzled: which 16 bytes go where depends on the
/// address alone.
int swizzled(int offset, int swizzle_bytes) {
  const int mask = swizzle_bytes / 16 - 1;
  return offset ^ (offset >> 7 & mask) << 4;
}

/// Whole boxes bring rows of all panels in octets, at one coordinate, which is where lanes put what
/// they copy themselves.
TEST(ServingTensorMaps, WholeBoxesHoldTheirRowsInOctets) {
  const std::vector<char> memory(64);
  LaunchCalls calls;
  calls.tensor_map_encode_tiled = remember;
  ServingMaps maps;
  std::mt19937 random(4);
  for (const auto& [head_dim, rows] : {std::pair{128, 16}, {256, 16}, {64, 8}, {96, 16}}) {
    const HopperServingConfig config{
        .head_dim = head_dim, .kv_source = KvSource::pages, .piece_rows = rows};
    const TensorBox box = config.kv_box();
    const int panels = config.dense().panels();
    ASSERT_TRUE(config.has_whole_boxes());
    encoded.clear();
    ASSERT_EQ(
        encode_serving_maps(
            calls,
            {.q_box = config.q_box(), .kv_box = box, .kv_panels = panels, .head_dim = head_dim},
            params_of(memory.data()), maps),
        CUDA_SUCCESS);
    const Encoded& keys = encoded[1];
    EXPECT_EQ(keys.address, memory.data());
    const std::array<cuuint32_t, 5> expected{static_cast<cuuint32_t>(box.columns), 8,
                                             static_cast<cuuint32_t>(panels),
                                             static_cast<cuuint32_t>(rows / 8), 1};
    EXPECT_EQ(keys.box, expected);
    EXPECT_EQ(config.piece_bytes(), rows * head_dim * 2);
    for (int draw = 0; draw < 50; ++draw) {
      const long long first = random() % 50 * 8;
      const int head = static_cast<int>(random() % kHeads);
      const long long page = static_cast<int>(random() % 100000U);
      const long long place =
          page * maps.steps.k.container + first * maps.steps.k.row + head * maps.steps.k.head;
      int offset = 0;
      // In the order in which the copy engine writes a box.
      for (int octet = 0; octet < rows / 8; ++octet) {
        for (int panel = 0; panel < panels; ++panel) {
          for (int line = 0; line < 8; ++line) {
            for (int column = 0; column < box.columns; column += 8, offset += 16) {
              const auto found = element_at(keys, {0, 0, panel, octet, place}, column, line);
              const int row = octet * 8 + line;
              const int of_row = panel * box.columns + column;
              ASSERT_TRUE(found);
              ASSERT_EQ(
                  *found - reinterpret_cast<std::uintptr_t>(memory.data()),
                  2 * static_cast<std::uintptr_t>(page * kStrides.batch + head * kStrides.head +
                                                  (first + row) * kStrides.seq + of_row));
              ASSERT_EQ(config.octet_offset(row, of_row / 8), swizzled(offset, box.swizzle_bytes));
            }
          }
        }
      }
      EXPECT_FALSE(element_at(keys, {0, 0, 0, 0, -1}, 0, 0)) << "pieces that nobody sees are zeros";
    }
  }
}

/// Columns past head_dim are the map's to leave out, as heads and batch items that do not exist.
TEST(ServingTensorMaps, SizesFollowFromWhatTheTensorsAre) {
  const std::vector<char> memory(64);
  LaunchCalls calls;
  calls.tensor_map_encode_tiled = remember;
  ServingMaps maps;
  ServingAttentionParams params = params_of(memory.data());
  encoded.clear();
  ASSERT_EQ(encode_serving_maps(calls, plan_of_rows(16), params, maps), CUDA_SUCCESS);
  for (const Encoded& one : encoded) {
    EXPECT_EQ(one.sizes[0], static_cast<cuuint64_t>(kHeadDim));
    EXPECT_EQ(one.sizes[3], static_cast<cuuint64_t>(kHeads));
    EXPECT_EQ(one.box[0] * 2, 128U);
  }
  EXPECT_EQ(maps.steps.q.container, 0) << "rows of all sequences follow one another";
  EXPECT_EQ(maps.steps.k.row, 1);
  EXPECT_EQ(maps.steps.k.container, kStrides.batch / kStrides.seq);
  // Strides that are never used may be anything; the driver gets some that it accepts.
  static constexpr int kSome = 0;
  params.pages = {};
  params.lengths.cu_seqlens_k = &kSome;
  params.k_strides.batch = 3;
  params.heads_kv = 1;
  params.k_strides.head = 5;
  encoded.clear();
  ASSERT_EQ(encode_serving_maps(calls, plan_of_rows(128), params, maps), CUDA_SUCCESS);
  EXPECT_EQ(maps.steps.k.container, 0);
  for (const cuuint64_t stride : encoded[1].strides) {
    EXPECT_EQ(stride % 16, 0U);
    EXPECT_LT(stride, 1ULL << 40);
  }
  // Pages whose stride is no multiple of the rows'.
  params.pages = {.table = &kSome, .pages_per_sequence = 8, .page_size = 64};
  params.lengths.cu_seqlens_k = nullptr;
  params.k_strides = {.batch = 5000, .head = kHeadDim, .seq = 3 * 8};
  encoded.clear();
  ASSERT_EQ(encode_serving_maps(calls, plan_of_rows(16), params, maps), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<cuuint64_t>(maps.steps.k.row) * encoded[1].strides[1], 48U);
  EXPECT_EQ(static_cast<cuuint64_t>(maps.steps.k.container) * encoded[1].strides[1], 10000U);
}

}  // namespace
}  // namespace swr
