// SPDX-License-Identifier: MIT
#include "core/metrics.h"
#include "core/number_text.h"
#include "db/shipped.h"
#include "model/prediction_error.h"
#include "report/explain/analysis.h"
#include "report/explain/likely_text.h"
#include "report/page/page_data.h"
#include "report/report.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace swr::page {
namespace {

constexpr double kBytesPerMb = 1e6;

/// Cyclic and sawtooth results, taken one like the other, fastest first.
std::vector<VariantResult> order_results(const ProblemStory& field) {
  std::vector<VariantResult> results;
  for (const VariantStory& story : field.stories) {
    if (story.ok() && order_of(story.result().variant) != Order::right_to_left) {
      results.push_back((story.screening != nullptr ? story.screening : story.newest)->result);
    }
  }
  std::ranges::stable_sort(results, {}, &VariantResult::time_us);
  return results;
}

/// What answers in the place of a prediction; empty where nothing does.
std::string shipped_sentence(const ProblemStory& field) {
  const bool is_built_in = field.overlay_digest.empty();
  const auto shipped = field.provenance == Provenance::predicted && is_built_in
                           ? shipped_result(field.problem, field.device)
                           : std::nullopt;
  return shipped
             ? " Queries answer with " + describe(shipped->result.variant) + ", " +
                   time_text(shipped->result.time_us()) + ", which was measured and came with swr."
             : "";
}

/// Beside a measured best.
std::string peers_sentence(const ProblemStory& field) {
  std::string text;
  for (const auto& [call, median_us] : field.peers) {
    if (field.provenance == Provenance::measured) {
      text += " Against " + call + ": " + time_text(median_us) + ", " +
              significant_text(median_us / field.best().result().time_us(), 3) + " times as long.";
    }
  }
  return text;
}

std::string best_sentence(const ProblemStory& field) {
  const VariantStory& best = field.best();
  const bool in_finals = best.finalist != nullptr && is_final(best.result());
  const auto rate = tflop_per_s(field.problem, best.result());
  const double bias = prediction_bias(field.problem, best.result(), field.profile);
  return describe(best.result().variant) + " with " + time_text(best.result().time_us()) +
         (rate ? ", " + uncertain_rate_text(*rate, error_of_best(field), bias) + " TFLOP/s" : "") +
         " (" + std::string(to_string(field.provenance)) + (in_finals ? ", in the finals" : "") +
         ")." + peers_sentence(field) + shipped_sentence(field);
}

const VariantStory* first_not_tied(const ProblemStory& field) {
  for (const VariantStory& story : field.stories) {
    if (&story != &field.best() && story.ok() &&
        (story.finalist == nullptr || !story.finalist->tied)) {
      return &story;
    }
  }
  return nullptr;
}

std::string ratio_text(const RecordedFinalist& finalist) {
  return significant_text(finalist.ratio, 4) + " [" + significant_text(finalist.ratio_low, 4) +
         ", " + significant_text(finalist.ratio_high, 4) + "]";
}

std::string margin_sentence(const ProblemStory& field) {
  const VariantStory* next = first_not_tied(field);
  if (next == nullptr) {
    return "Nothing else that succeeded is slower by enough to matter.";
  }
  const std::string name = describe(next->result().variant);
  if (field.decision != nullptr && next->finalist != nullptr) {
    return "The next that is not tied, " + name + ", takes " + ratio_text(*next->finalist) +
           " times as long (in shared rounds, 95 % interval).";
  }
  return "The next, " + name + ", takes " +
         significant_text(next->time_us() / field.best().time_us(), 4) + " times as long (" +
         (field.provenance == Provenance::measured ? "medians of the screening)."
                                                   : "both predicted).");
}

/// How many variants the model cannot tell from the best; empty where its error is not known.
std::string ties_sentence(const ProblemStory& field) {
  const double error = error_of_best(field);
  if (error <= 0) {
    return "";
  }
  const double latest_us = field.best().time_us() * (1 + error);
  const auto tied = std::ranges::count_if(field.stories, [&](const VariantStory& story) {
    return story.ok() && story.time_us() <= latest_us;
  });
  return " Predicted " + predicted_ties_text(error, tied - 1) + ".";
}

std::string significance_sentence(const ProblemStory& field) {
  if (field.provenance == Provenance::predicted) {
    return "Nothing was measured, so there is no significance: predictions rank variants, and the "
           "first few should be measured." +
           ties_sentence(field);
  }
  if (field.decision == nullptr) {
    return "Not decided in finals: medians taken one after the other err by up to 2 %, so "
           "differences below that are not significant.";
  }
  long long rounds = 0;
  long long tied = 0;
  for (const RecordedFinalist& finalist : field.decision->finalists) {
    rounds = std::max(rounds, finalist.rounds);
    tied += finalist.tied ? 1 : 0;
  }
  const std::string head = "Decided in " + std::to_string(rounds) + " shared rounds of " +
                           std::to_string(field.decision->finalists.size()) + " finalists. ";
  const std::string threshold =
      field.decision->tie_threshold
          ? significant_text(*field.decision->tie_threshold * 100, 2) + " %"
          : "the threshold";
  return head +
         (tied > 1 ? std::to_string(tied) + " are tied: their differences are under " + threshold +
                         " or in doubt, and excess misses, registers and key chose among "
                         "them. The others are slower by more than that."
                   : "It is faster than all others by more than " + threshold + ".");
}

std::string avoidable_sentence(const ProblemStory& field) {
  const VariantResult& best = field.best().result();
  const auto excess = excess_miss_sectors(field.problem, best);
  const long long compulsory = compulsory_sectors(field.problem);
  if (!excess) {
    return "Unknown: there are no counters of memory for it. " + count_text(compulsory) +
           " sectors are compulsory.";
  }
  if (*excess == 0) {
    return "None: nothing was fetched twice; " + count_text(compulsory) +
           " sectors are compulsory (" + std::string(to_string(field.provenance)) + ").";
  }
  return count_text(*excess) + " sectors (" + bytes_text(*excess * kSectorBytes) +
         ") are excess misses, fetched again after eviction, beside " + count_text(compulsory) +
         " compulsory ones (" + std::string(to_string(field.provenance)) + ").";
}

/// What the losing order costs where nothing else differs; empty where no such pair was tried.
std::string order_sentence(const ProblemStory& field) {
  const std::vector<VariantResult> results = order_results(field);
  const auto pair = best_order_pair(results);
  if (!pair) {
    return "";
  }
  const auto cyclic = excess_miss_sectors(field.problem, *pair->cyclic);
  const auto sawtooth = excess_miss_sectors(field.problem, *pair->sawtooth);
  constexpr double kNoticeableShare = 0.0005;
  const double share = pair->sawtooth->time_us() / pair->cyclic->time_us() - 1.0;
  std::string text =
      "Sawtooth against cyclic, all else equal (" + describe(pair->sawtooth->variant) + "): " +
      (std::abs(share) < kNoticeableShare
           ? "the same time"
           : "time " + change_text(pair->cyclic->time_us(), pair->sawtooth->time_us()));
  if (cyclic && sawtooth) {
    const double mb = static_cast<double>((*cyclic - *sawtooth) * kSectorBytes) / kBytesPerMb;
    constexpr double kNoticeableMb = 0.1;
    text += std::abs(mb) < kNoticeableMb
                ? ", and both fetch as much"
                : std::string(", and ") + (mb < 0 ? "sawtooth" : "cyclic") + " fetches " +
                      significant_text(std::abs(mb), 4) + " MB more";
  }
  return text + ".";
}

}  // namespace

Json answers_json(const ProblemStory& field) {
  const VariantResult& best = field.best().result();
  return {{"best", best_sentence(field)},
          {"margin", margin_sentence(field)},
          {"significance", significance_sentence(field)},
          {"limits", limits_in_words(field.problem, best, field.profile)},
          {"avoidable", avoidable_sentence(field)},
          {"order", order_sentence(field)},
          {"next", next_steps_in_words(field.problem, best, field.profile)}};
}

Json winners_json(const ProblemStory& field) {
  Json sentences = Json::array();
  for (const auto& [objective, variant] : field.winners_by) {
    const auto story = std::ranges::find_if(
        field.stories,
        [&variant = variant](const VariantStory& one) { return one.result().variant == variant; });
    if (story == field.stories.end() || !story->ok()) {
      continue;
    }
    std::string text =
        "By " + objective + ": " + describe(variant) + ", " + time_text(story->time_us());
    if (const auto& energy = story->result().measurement()->energy) {
      text += ", " + significant_text(energy->mean_mj(), 4) + " mJ";
    }
    sentences.push_back(text + ".");
  }
  return sentences;
}

}  // namespace swr::page
