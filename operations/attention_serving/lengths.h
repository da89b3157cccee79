// SPDX-License-Identifier: MIT
// The draw of lengths that stands for a family of them, and what follows from lengths.
#pragma once

#include "operations/attention_serving/serving_attention.h"

#include <vector>

namespace swr {

/// Of each sequence of a batch.
struct DrawnLengths {
  std::vector<int> queries;
  std::vector<int> keys;

  long long total_queries() const;
};

/// The same for the same problem: variants are compared, and figures of problems counted, by the
/// same lengths. No sequence has more queries than keys.
DrawnLengths draw_lengths(const ServingAttentionProblem& problem);

/// Where each sequence begins, and the end of the last.
std::vector<int> cumulative(const std::vector<int>& lengths);

/// Pages that `keys` keys behind `padding` rows lie in.
int pages_of(const ServingAttentionProblem& problem, int keys);

/// Rows before the first key of a sequence that has keys: kDrawnPadding or 0.
int padding_of(const ServingAttentionProblem& problem, int keys);

/// Which pages of a pool hold a batch: [batch, width] ids in an order drawn at random, -1 past the
/// end of a sequence. The pool has `pool` pages, of which some are nobody's.
struct DrawnPages {
  std::vector<int> table;
  int width = 0;
  int pool = 0;
};
DrawnPages draw_pages(const ServingAttentionProblem& problem, const DrawnLengths& lengths,
                      unsigned long long seed);

/// Pairs of a query and a key that it sees, of one head of one sequence.
double visible_pairs(const ServingAttentionProblem& problem, int queries, int keys);
/// Keys that some query of the sequence sees.
int visible_keys(const ServingAttentionProblem& problem, int queries, int keys);

}  // namespace swr
