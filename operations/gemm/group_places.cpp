// SPDX-License-Identifier: MIT
#include "operations/gemm/group_places.h"

#include "templates/common/gemm_groups.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace swr {

std::vector<int> drawn_group_rows(const GemmProblem& problem, unsigned long long seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> around_one(0.7, 1.3);
  std::vector<double> shares(static_cast<std::size_t>(problem.batch));
  std::ranges::generate(shares, [&] { return around_one(random); });
  if (problem.skewed && problem.batch > 1) {
    const std::size_t hot = random() % shares.size();
    for (std::size_t i = 1; i < shares.size(); i += 4) {
      shares[(hot + i) % shares.size()] = 0.0;
    }
    shares[hot] = 0.0;
    const double others = std::accumulate(shares.begin(), shares.end(), 0.0);
    shares[hot] = others > 0.0 ? others : 1.0;
  }
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  const double all_rows = 1.0 * problem.m * problem.batch;
  std::vector<int> rows;
  double sum = 0.0;
  long long end = 0;
  for (const double share : shares) {
    sum += share;
    const long long next = std::llround(all_rows * sum / total);
    rows.push_back(static_cast<int>(next - end));
    end = next;
  }
  return rows;
}

GroupPlaces::GroupPlaces(const GemmProblem& problem)
    : matrices(problem.batch), rows(problem.m), parts{{.rows = problem.m}} {}

GroupPlaces::GroupPlaces(GemmGroups form, std::span<const int> counts)
    : matrices(form == GemmGroups::masked ? static_cast<int>(counts.size()) : 1) {
  int end = 0;
  for (int item = 0; item < static_cast<int>(counts.size()); ++item) {
    const int count = counts[static_cast<std::size_t>(item)];
    const int run = ceil_div(count, kContiguousRows) * kContiguousRows;
    const bool is_masked = form == GemmGroups::masked;
    const GroupPart part{item, is_masked ? item : 0, is_masked ? 0 : end, count};
    if (count > 0) {
      parts.push_back(part);
    }
    if (form == GemmGroups::contiguous) {
      numbers.insert(numbers.end(), static_cast<std::size_t>(count), item);
      numbers.insert(numbers.end(), static_cast<std::size_t>(run - count), -1);
      padding.push_back({item, 0, end + count, run - count});
      end += run;
    } else {
      end = is_masked ? std::max(end, count) : end + count;
      numbers.push_back(is_masked ? count : end);
    }
  }
  rows = end + kContiguousRows;
  if (form == GemmGroups::contiguous) {
    numbers.resize(static_cast<std::size_t>(rows), -1);
  }
}

}  // namespace swr
