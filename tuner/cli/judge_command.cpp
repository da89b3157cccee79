// SPDX-License-Identifier: MIT
// Judges search strategies on recorded spaces.
#include "core/json.h"
#include "core/number_text.h"
#include "core/text_table.h"
#include "report/other_formats.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/foreign_results.h"
#include "tuner/cli/options.h"
#include "tuner/search/replay_evaluator.h"

#include <algorithm>
#include <ostream>

namespace swr::cli {
namespace {

const std::vector<std::string> kBudgetNames{"k=8", "k=16", "k=32", "tenth"};

struct JudgeArguments {
  std::vector<std::string> replay;
  std::string strategies;
  CacheSubject subject;
};

/// Nothing predicts times of users' kernels.
std::vector<StrategyKind> strategies_wanted(const Session& session, const JudgeArguments& asked) {
  const char* const usual =
      session.common.specs.empty() ? "exhaustive,random,model" : "exhaustive,random,learned";
  std::vector<StrategyKind> strategies;
  for (const std::string& name : split(asked.strategies.empty() ? usual : asked.strategies, ',')) {
    strategies.push_back(parse_strategy(name));
  }
  return strategies;
}

/// Of a database, a recording, or a cache of Kernel Tuner.
std::vector<RecordedSpace> spaces_of(const Session& session, const JudgeArguments& asked,
                                     const std::filesystem::path& file) {
  if (file.extension() == ".json") {
    const Json document = read_results_document(file);
    if (is_kernel_tuner_cache(document)) {
      return {space_of_others(session, asked.subject, file, document)};
    }
  }
  return load_spaces(file);
}

std::vector<SpaceJudgement> judge_all(const Session& session, const JudgeArguments& asked) {
  const auto strategies = strategies_wanted(session, asked);
  std::vector<SpaceJudgement> judgements;
  for (const std::string& file : asked.replay) {
    for (const RecordedSpace& space : spaces_of(session, asked, file)) {
      judgements.push_back(judge_space(space, strategies));
    }
  }
  return judgements;
}

TextTable regret_table(const std::string& first_title) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns{
      {.title = first_title, .align = Align::left, .wraps = true}, {"strategy", Align::left}};
  for (const std::string& name : kBudgetNames) {
    columns.push_back({name});
  }
  return TextTable(columns);
}

/// The regrets of one strategy on one space, by budget.
std::vector<double> regrets(const SpaceJudgement& space, StrategyKind strategy) {
  std::vector<double> all;
  for (const Judgement& judgement : space.judgements) {
    if (judgement.strategy == strategy) {
      all.push_back(judgement.regret);
    }
  }
  return all;
}

struct Summary {
  double mean = 0.0;
  double worst = 0.0;
  double within_2_percent = 0.0;  ///< Share of the spaces.
};

Summary summarize(const std::vector<SpaceJudgement>& judgements, StrategyKind strategy,
                  std::size_t budget) {
  constexpr double kClose = 0.02;
  Summary summary;
  for (const SpaceJudgement& space : judgements) {
    const double regret = regrets(space, strategy)[budget];
    const auto count = static_cast<double>(judgements.size());
    summary.mean += regret / count;
    summary.worst = std::max(summary.worst, regret);
    summary.within_2_percent += regret <= kClose ? 1.0 / count : 0.0;
  }
  return summary;
}

void add_summary_rows(TextTable& table, const std::vector<SpaceJudgement>& judgements,
                      StrategyKind strategy) {
  std::vector<std::string> mean{"mean", std::string(to_string(strategy))};
  std::vector<std::string> worst{"worst", std::string(to_string(strategy))};
  std::vector<std::string> close{"within 2 %", std::string(to_string(strategy))};
  for (std::size_t budget = 0; budget < kBudgetNames.size(); ++budget) {
    const Summary summary = summarize(judgements, strategy, budget);
    mean.push_back(percent_text(summary.mean, 3));
    worst.push_back(percent_text(summary.worst, 3));
    close.push_back(percent_text(summary.within_2_percent, 3));
  }
  table.add_row(mean);
  table.add_row(worst);
  table.add_row(close);
}

void print_judgements(std::ostream& out, const std::vector<SpaceJudgement>& judgements,
                      const std::vector<StrategyKind>& strategies, const TableStyle& style) {
  out << "Regret: fastest found over fastest of the space, minus 1, after measuring k variants or "
         "a "
         "tenth of the space.\n\n";
  TextTable table = regret_table("space");
  for (const SpaceJudgement& space : judgements) {
    for (const StrategyKind strategy : strategies) {
      std::vector<std::string> cells{to_string(space.problem) + " on " + space.device.name + ", " +
                                         std::to_string(space.variants) + " variants",
                                     std::string(to_string(strategy))};
      for (const double regret : regrets(space, strategy)) {
        cells.push_back(percent_text(regret, 3));
      }
      table.add_row(cells);
    }
  }
  table.print(out, style);
  out << "\nOver " << judgements.size() << " spaces:\n";
  TextTable summary = regret_table("");
  for (const StrategyKind strategy : strategies) {
    add_summary_rows(summary, judgements, strategy);
  }
  summary.print(out, style);
}

Json space_json(const SpaceJudgement& space) {
  Json json = Json::object();
  json["problem"] = space.problem;
  json["device"] = space.device;
  json["variants"] = space.variants;
  json["best_us"] = space.best_us;
  json["judgements"] = Json::array();
  for (const Judgement& judgement : space.judgements) {
    json["judgements"].push_back({{"strategy", std::string(to_string(judgement.strategy))},
                                  {"max_variants", judgement.max_variants},
                                  {"regret", judgement.regret}});
  }
  return json;
}

Json document_of(const std::vector<SpaceJudgement>& judgements,
                 const std::vector<StrategyKind>& strategies) {
  Json json = Json::object();
  json["spaces"] = Json::array();
  for (const SpaceJudgement& space : judgements) {
    json["spaces"].push_back(space_json(space));
  }
  json["summary"] = Json::array();
  for (const StrategyKind strategy : strategies) {
    for (std::size_t budget = 0; budget < kBudgetNames.size(); ++budget) {
      const Summary summary = summarize(judgements, strategy, budget);
      json["summary"].push_back({{"strategy", std::string(to_string(strategy))},
                                 {"budget", kBudgetNames[budget]},
                                 {"mean_regret", summary.mean},
                                 {"worst_regret", summary.worst},
                                 {"share_within_2_percent", summary.within_2_percent}});
    }
  }
  return json;
}

int run_judge(const Session& session, const JudgeArguments& asked) {
  const auto judgements = judge_all(session, asked);
  const auto strategies = strategies_wanted(session, asked);
  if (session.common.json) {
    session.out << json_document(document_of(judgements, strategies));
  } else {
    print_judgements(session.out, judgements, strategies,
                     {.width = session.environment.stdout_width});
  }
  return kExitSuccess;
}

}  // namespace

void add_judge(CommandLine& line) {
  auto [options, asked] = line.add<JudgeArguments>(
      {.name = "judge",
       .meaning = "Compare search strategies on recorded spaces, without a GPU",
       .footer = "Regret is what the best variant found loses against the best of the space, after "
                 "measuring\n"
                 "8, 16 and 32 variants and a tenth of the space.\n\n"
                 "Examples:\n"
                 "  swr-tune judge --replay tuned.db\n"
                 "  swr-tune judge --replay tuned.spaces --strategy model\n"
                 "  swr-tune judge --replay cache.json --spec blur.json --gpu a100",
       .group = "Experiments"},
      run_judge);
  options.add(
      "--replay FILE...", asked.replay,
      "Databases, files written by swr-tune db record (.spaces), and caches of Kernel Tuner "
      "(.json) of the kernel of --spec on --gpu",
      {.group = "Files", .is_required = true, .role = FileRole::input});
  options.add("--strategy LIST", asked.strategies, "Strategies to compare",
              {.usual = "exhaustive,random, and model; with --spec learned"});
  add_cache_subject_options(options, asked.subject);
  add_json_option(options);
}

}  // namespace swr::cli
