// SPDX-License-Identifier: MIT
#include "tuner/cli/missed_problems.h"

#include "db/missed_questions.h"
#include "tuner/cli/measuring.h"
#include <swr/store.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace swr::cli {
namespace {

/// Says of a problem whether it was tuned, in vain or not, as this session would tune it.
class Answered {
 public:
  Answered(const TuneSession& session, GpuChoice gpu)
      : gpu_(std::move(gpu)),
        setting_{.l2_state = session.common.l2_state,
                 .overlay_digest = overlay_digest(generator_options(session))} {
    if (std::filesystem::exists(database_path(session))) {
      store_.emplace(database_path(session), Store::Mode::read_only);
    }
  }

  bool operator()(const Problem& problem) const {
    return store_ && std::ranges::any_of(store_->results(problem, gpu_.device, setting_),
                                         [this](const StoredResult& stored) {
                                           return stored.result.provenance() == gpu_.provenance();
                                         });
  }

 private:
  GpuChoice gpu_;
  Setting setting_;
  std::optional<Store> store_;
};

}  // namespace

GpuChoice first_gpu(const TuneSession& session) {
  const TuneArguments& options = session.options;
  return options.gpus.empty() ? choose_gpu(options.gpu) : choose_gpus(options.gpus).front();
}

std::vector<Problem> missed_problems(const TuneSession& session) {
  std::vector<Problem> missed =
      read_missed_questions(missed_questions_path(database_path(session)));
  if (!missed.empty()) {
    const Answered is_answered(session, first_gpu(session));
    std::erase_if(missed, [&](const Problem& problem) { return is_answered(problem); });
  }
  return missed;
}

void forget_answered(const TuneSession& session, const GpuChoice& gpu) {
  const Answered is_answered(session, gpu);
  forget_missed_questions(missed_questions_path(database_path(session)),
                          [&](const Problem& problem) { return is_answered(problem); });
}

}  // namespace swr::cli
