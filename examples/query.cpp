// SPDX-License-Identifier: MIT
// Asks a tuned database which variant to run on an H200 for 8 heads of 128, without a GPU.
//   usage: query DATABASE SEQ
#include <swr/attention_problem.h>
#include <swr/swr.h>

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: query DATABASE SEQ\n";
    return 2;
  }
  try {
    const swr::DeviceInfo h200 = swr::profiled_device("h200");
    const int seq = std::atoi(argv[2]);
    const swr::Lookup lookup(argv[1]);
    const swr::AttentionProblem problem{
        .heads_q = 8, .heads_kv = 8, .seq_q = seq, .seq_kv = seq, .head_dim = 128};
    const swr::Answer answer = lookup.best(problem, h200);
    std::cout << to_string(answer.level) << ": " << to_key(answer.variant) << "\n";
    // What chose from shape and device alone stored nothing.
    const bool is_stored =
        answer.level != swr::MatchLevel::modelled && answer.level != swr::MatchLevel::default_only;
    if (answer.time_us) {
      std::cout << "expected " << *answer.time_us << " us"
                << (is_stored ? ", stored for " + to_string(answer.stored_problem)
                              : std::string(", by a closed form; nothing near is stored"))
                << "\n";
    }
    return 0;
  } catch (const swr::Error& error) {
    std::cerr << "query: " << error.what() << "\n";
    return 1;
  }
}
