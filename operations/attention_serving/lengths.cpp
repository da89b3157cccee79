// SPDX-License-Identifier: MIT
#include "operations/attention_serving/lengths.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace swr {
namespace {

constexpr int kDrawnPadding = 3;

/// Numbers that are the same with every standard library (Steele et al. 2014, SplitMix64).
class Draw {
 public:
  explicit Draw(unsigned long long seed) : state_(seed) {}

  unsigned long long bits() {
    state_ += 0x9e3779b97f4a7c15ULL;
    unsigned long long x = state_;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  }
  /// In (0, 1].
  double unit() { return (static_cast<double>(bits() >> 11U) + 1.0) * 0x1p-53; }
  int up_to(int most) { return std::clamp(static_cast<int>(std::ceil(unit() * most)), 1, most); }
  int log_normal(double median, int most) {
    const double radius = std::sqrt(-2.0 * std::log(unit()));
    const double normal = radius * std::cos(2.0 * std::numbers::pi * unit());
    return std::clamp(static_cast<int>(std::min(median * std::exp(normal), 1e9)), 1, most);
  }

 private:
  unsigned long long state_;
};

int drawn_keys(const ServingAttentionProblem& problem, Draw& draw, int i) {
  constexpr int kLongOnes = 20;
  constexpr int kShortShare = 16;
  constexpr int kDwarfShare = 64;
  constexpr int kEmptyOnes = 10;
  const int most = problem.seq_kv;
  switch (problem.lengths) {
    case LengthFamily::equal:
      return most;
    case LengthFamily::uniform:
      return draw.up_to(most);
    case LengthFamily::log_normal:
      return draw.log_normal(most / 8.0, most);
    case LengthFamily::short_and_long:
      return i % kLongOnes == 0 ? most : draw.up_to(std::max(1, most / kShortShare));
    case LengthFamily::one_giant:
      return i == problem.batch / 3 ? most : std::max(1, most / kDwarfShare);
    case LengthFamily::some_empty:
      return i % kEmptyOnes == kEmptyOnes - 1 ? 0 : draw.up_to(most);
    case LengthFamily::one_chunk:
      return i == 0 ? most : draw.up_to(most);
  }
  return most;
}

long long sum_of(const std::vector<int>& values) {
  return std::accumulate(values.begin(), values.end(), 0LL);
}

}  // namespace

long long DrawnLengths::total_queries() const { return sum_of(queries); }

DrawnLengths draw_lengths(const ServingAttentionProblem& problem) {
  constexpr unsigned long long kSeed = 1;
  Draw draw(kSeed);
  DrawnLengths lengths;
  for (int i = 0; i < problem.batch; ++i) {
    const int keys = drawn_keys(problem, draw, i);
    const bool is_decode = problem.lengths == LengthFamily::one_chunk && i > 0;
    lengths.keys.push_back(keys);
    lengths.queries.push_back(std::min(is_decode ? 1 : problem.seq_q, keys));
  }
  return lengths;
}

std::vector<int> cumulative(const std::vector<int>& lengths) {
  std::vector<int> ends{0};
  for (const int length : lengths) {
    ends.push_back(ends.back() + length);
  }
  return ends;
}

int padding_of(const ServingAttentionProblem& problem, int keys) {
  return problem.leftpad && keys > 0 ? kDrawnPadding : 0;
}

int pages_of(const ServingAttentionProblem& problem, int keys) {
  const int rows = keys + padding_of(problem, keys);
  return (rows + problem.page_size - 1) / problem.page_size;
}

DrawnPages draw_pages(const ServingAttentionProblem& problem, const DrawnLengths& lengths,
                      unsigned long long seed) {
  constexpr int kNobodys = 2;
  DrawnPages drawn;
  int used = 0;
  for (const int keys : lengths.keys) {
    const int pages = pages_of(problem, keys);
    used += pages;
    drawn.width = std::max(drawn.width, pages);
  }
  drawn.pool = used + kNobodys;
  std::vector<int> ids(static_cast<std::size_t>(drawn.pool));
  std::iota(ids.begin(), ids.end(), 0);
  Draw draw(seed);
  for (int i = drawn.pool - 1; i > 0; --i) {
    std::swap(ids[static_cast<std::size_t>(i)],
              ids[static_cast<std::size_t>(draw.up_to(i + 1) - 1)]);
  }
  auto next = ids.begin();
  for (const int keys : lengths.keys) {
    const int pages = pages_of(problem, keys);
    for (int entry = 0; entry < drawn.width; ++entry) {
      drawn.table.push_back(entry < pages ? *next++ : -1);
    }
  }
  return drawn;
}

double visible_pairs(const ServingAttentionProblem& problem, int queries, int keys) {
  if (problem.mask == ServingMask::full) {
    return 1.0 * queries * keys;
  }
  // The query at position p sees min(p + 1, most) keys; positions end at the last key.
  const double most = problem.mask == ServingMask::window ? problem.window + 1.0 : keys + 1.0;
  const auto up_to = [&](double count) {
    return count <= most ? count * (count + 1) / 2 : most * (most + 1) / 2 + (count - most) * most;
  };
  return up_to(keys) - up_to(keys - queries);
}

int visible_keys(const ServingAttentionProblem& problem, int queries, int keys) {
  if (queries == 0) {
    return 0;
  }
  return problem.mask == ServingMask::window ? std::min(keys, queries + problem.window) : keys;
}

}  // namespace swr
