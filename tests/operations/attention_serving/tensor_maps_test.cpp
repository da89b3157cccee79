// SPDX-License-Identifier: MIT
// Boxes of the Hopper family hold the rows that they are meant to, end where a sequence does, and
// touch nothing else, whatever the layout: the copy engine's arithmetic, done on the host.
#include "operations/attention_serving/tensor_maps.h"

#include "operations/attention_serving/parts.h"
#include "tests/support/test.h"

namespace swr {
namespace {

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
