// SPDX-License-Identifier: MIT
#include "core/field_builders.h"
#include "core/reject.h"
#include "operations/attention_fields.h"
#include "operations/attention_serving/lengths.h"
#include "operations/attention_serving/parts.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace swr {
namespace {

using namespace std::string_view_literals;

constexpr std::array kMasks{"full"sv, "causal"sv, "window"sv};
constexpr std::array kSoftcaps{"none"sv, "approximate"sv, "accurate"sv};
constexpr std::array kLengthFamilies{"equal"sv,          "uniform"sv,   "log_normal"sv,
                                     "short_and_long"sv, "one_giant"sv, "some_empty"sv,
                                     "one_chunk"sv};
constexpr int kMostHeadDim = 256;
constexpr int kMostWindow = 65535;
constexpr int kMostPageSize = 1023;

void require_between(long long value, long long least, long long most, const char* name) {
  if (value < least || value > most) {
    reject(std::string(name) + " must be " + std::to_string(least) + " to " + std::to_string(most) +
           ", not " + std::to_string(value));
  }
}

void require_head_dim(int value, const char* name) {
  if (value < 16 || value > kMostHeadDim || value % 16 != 0) {
    reject(std::string(name) + " must be a multiple of 16 from 16 to 256, not " +
           std::to_string(value));
  }
}

/// "1024/128" or "128".
std::string pair(int a, int b) {
  return std::to_string(a) + (a == b ? "" : "/" + std::to_string(b));
}

}  // namespace

std::string_view to_string(ServingMask value) { return enum_text(kMasks, value); }
std::string_view to_string(Softcap value) { return enum_text(kSoftcaps, value); }

void validate(const ServingAttentionProblem& problem) {
  constexpr int kMostBatch = 1 << 20;
  constexpr int kMostHeads = 1 << 15;
  constexpr int kMostLength = 1 << 24;
  constexpr long long kMostRows = 1LL << 30;
  require_between(problem.batch, 1, kMostBatch, "batch");
  require_between(problem.heads_q, 1, kMostHeads, "heads");
  require_between(problem.heads_kv, 1, kMostHeads, "kv-heads");
  require_between(problem.seq_q, 1, kMostLength, "seq");
  require_between(problem.seq_kv, 1, kMostLength, "seq-kv");
  if (problem.heads_q % problem.heads_kv != 0) {
    reject("heads (" + std::to_string(problem.heads_q) + ") must be a multiple of kv-heads (" +
           std::to_string(problem.heads_kv) + ")");
  }
  require_between(1LL * problem.batch * problem.heads_q * problem.seq_q, 1, kMostRows,
                  "batch times heads times seq");
  require_head_dim(problem.head_dim, "head-dim");
  require_head_dim(problem.head_dim_v, "head-dim-v");
  require_between(problem.page_size, 0, kMostPageSize, "page-size");
  require_between(problem.window, 0, kMostWindow, "window");
  if (problem.window > 0 && problem.mask != ServingMask::window) {
    reject("a window of " + std::to_string(problem.window) + " keys needs the mask 'window'");
  }
}

double flop_count(const ServingAttentionProblem& problem) {
  const DrawnLengths lengths = draw_lengths(problem);
  double pairs = 0.0;
  for (std::size_t i = 0; i < lengths.keys.size(); ++i) {
    pairs += visible_pairs(problem, lengths.queries[i], lengths.keys[i]);
  }
  return 2.0 * (problem.head_dim + problem.head_dim_v) * problem.heads_q * pairs;
}

CompulsoryBytes compulsory_bytes(const ServingAttentionProblem& problem) {
  constexpr int kElement = 2;
  constexpr int kPageId = 4;
  const DrawnLengths lengths = draw_lengths(problem);
  long long keys = 0;
  long long pages = 0;
  for (std::size_t i = 0; i < lengths.keys.size(); ++i) {
    const int visible = visible_keys(problem, lengths.queries[i], lengths.keys[i]);
    keys += visible;
    pages += problem.page_size > 0 ? pages_of(problem, visible) : 0;
  }
  const long long rows = lengths.total_queries() * problem.heads_q;
  return {.read = kElement * (rows * problem.head_dim +
                              keys * problem.heads_kv * (problem.head_dim + problem.head_dim_v)) +
                  kPageId * pages,
          .write = kElement * rows * problem.head_dim_v};
}

std::string to_string(const ServingAttentionProblem& problem) {
  std::string text =
      "attention_serving b" + std::to_string(problem.batch) + " h" +
      pair(problem.heads_q, problem.heads_kv) + " s" + pair(problem.seq_q, problem.seq_kv) + " d" +
      pair(problem.head_dim, problem.head_dim_v) + " " + std::string(to_string(problem.dtype)) +
      " " + std::string(to_string(problem.mask));
  text += problem.mask == ServingMask::window ? std::to_string(problem.window) : "";
  text += problem.page_size > 0 ? " page" + std::to_string(problem.page_size) : " rows";
  text += problem.softcap == Softcap::none ? "" : " cap_" + std::string(to_string(problem.softcap));
  text += problem.sinks ? " sinks" : "";
  text += problem.leftpad ? " leftpad" : "";
  return text + " " + std::string(enum_text(kLengthFamilies, problem.lengths));
}

std::string file_name_of(const ServingAttentionProblem& problem) {
  std::string name = to_string(problem);
  std::ranges::replace(name, ' ', '_');
  std::ranges::replace(name, '/', '-');
  return name;
}

/// Sections and packed heads need several heads.
void enlarge_sizes(ServingAttentionProblem& problem) {
  constexpr int kMany = 1 << 15;
  problem.heads_q = kMany;
  problem.heads_kv = kMany / 2;
}

std::span<const ProblemField> serving_attention_fields() {
  using P = ServingAttentionProblem;
  static const std::vector<ProblemField> fields = with_attention_sizes<P>(
      "Most queries of a sequence", "Most keys of a sequence",
      {number_field(&P::head_dim, kMostHeadDim, "head_dim",
                    "Elements per head; a multiple of 16 up to 256",
                    {.option = "head-dim", .usual = 64}),
       number_field(&P::head_dim_v, kMostHeadDim, "head_dim_v", "Elements per head of V",
                    {.option = "head-dim-v", .follows = "head_dim"}),
       choice_field(&P::dtype, kDTypes, "dtype", "Type of the inputs, and of O",
                    {.option = "dtype"}),
       choice_field(&P::mask, kMasks, "mask", "Keys that a query sees",
                    {.option = "mask", .usual = static_cast<int>(ServingMask::causal)}),
       number_field(&P::window, kMostWindow, "window",
                    "With --mask window, how many keys before its own a query sees",
                    {.option = "window"}),
       choice_field(&P::softcap, kSoftcaps, "softcap", "Caps scores by tanh",
                    {.option = "softcap"}),
       number_field(&P::page_size, kMostPageSize, "page_size",
                    "Rows per page of K and V; 0: no pages", {.option = "page-size", .usual = 16}),
       flag_field(&P::sinks, "sinks", "Each head has a sink: a score without a value",
                  {.option = "sinks"}),
       flag_field(&P::leftpad, "leftpad", "Sequences are padded on the left",
                  {.option = "leftpad"}),
       choice_field(&P::lengths, kLengthFamilies, "lengths", "How lengths are distributed",
                    {.option = "lengths"})});
  return fields;
}

}  // namespace swr
