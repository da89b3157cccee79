// SPDX-License-Identifier: MIT
#include "core/axis_builders.h"
#include "core/operation.h"
#include <swr/attention_variant.h>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kSwizzles{"q_fastest"sv, "head_fastest"sv, "head_sections"sv};
constexpr std::array kKvCopies{"cp_async"sv, "tma"sv};
constexpr std::array kMainloops{"plain"sv, "mutex"sv, "overlap"sv, "overlap_ordered"sv};
constexpr std::array kPOperands{"registers"sv, "shared"sv};

constexpr int kMaxTile = 1024;
constexpr int kMaxCount = 1 << 20;
constexpr int kMaxKvSplits = 64;

constexpr std::array kAxes{
    enum_axis<&AttentionVariant::family>("family", "Kernel family.", kFamilies),
    integer_axis<&AttentionVariant::tile_m, 1, kMaxTile>("tile_m", "Q rows per tile."),
    integer_axis<&AttentionVariant::tile_n, 1, kMaxTile>("tile_n", "K and V rows per tile."),
    integer_axis<&AttentionVariant::warps, 1, 32>("warps", "Warps of a CTA that compute."),
    integer_axis<&AttentionVariant::stages, 1, 4>("stages", "K and V tiles held in shared memory."),
    enum_axis<&AttentionVariant::order>("order", "Direction in which K and V are streamed.",
                                        kOrders),
    enum_axis<&AttentionVariant::persistence>("persistence", "How Q tiles are handed to CTAs.",
                                              kPersistences),
    integer_axis<&AttentionVariant::workers, 0, kMaxCount>(
        "workers", "CTAs of a persistent launch; 0 fills every resident slot."),
    enum_axis<&AttentionVariant::swizzle>("swizzle", "How linear tiles map to heads and Q tiles.",
                                          kSwizzles),
    integer_axis<&AttentionVariant::section_heads, 0, kMaxCount>(
        "section_heads", "Heads per section of head_sections."),
    switch_axis<&AttentionVariant::smem_swizzle>("smem_swizzle", "XOR-swizzled shared memory rows.",
                                                 Family::portable),
    integer_axis<&AttentionVariant::kv_splits, 1, kMaxKvSplits>(
        "kv_splits", "CTAs that share the K and V tiles of a Q tile.", Family::portable),
    switch_axis<&AttentionVariant::pack_gqa>(
        "pack_gqa", "Query heads of one K and V head share Q tiles.", Family::portable),
    switch_axis<&AttentionVariant::longest_first>(
        "longest_first", "Causal Q tiles with most keys are dealt first.", Family::portable),
    enum_axis<&AttentionVariant::kv_copy>("kv_copy", "How K and V come to shared memory.",
                                          kKvCopies, Family::portable),
    enum_axis<&AttentionVariant::mainloop>(
        "mainloop", "How products and softmax of tiles interleave.", kMainloops, Family::hopper),
    enum_axis<&AttentionVariant::p_operand>(
        "p_operand", "Where P lies while it is multiplied with V.", kPOperands, Family::hopper),
    integer_axis<&AttentionVariant::exp2_fma_eighths, 0, 4>(
        "exp2_fma_eighths", "Of eight exponentials, those the FMA pipe computes.", Family::hopper),
    integer_axis<&AttentionVariant::unroll, 1, 2>(
        "unroll", "Unrolling of the loop over tiles without mask.", Family::hopper),
};

}  // namespace

std::span<const Axis> attention_axes() { return kAxes; }

std::string_view to_string(KvCopy value) { return enum_text(kKvCopies, value); }
std::string_view to_string(Mainloop value) { return enum_text(kMainloops, value); }
std::string_view to_string(POperand value) { return enum_text(kPOperands, value); }
std::string_view to_string(AttentionSwizzle value) { return enum_text(kSwizzles, value); }

}  // namespace swr
