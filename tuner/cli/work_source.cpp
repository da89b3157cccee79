// SPDX-License-Identifier: MIT
#include "tuner/cli/work_source.h"

#include "core/reject.h"
#include "db/missed_questions.h"
#include <swr/store.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <ostream>
#include <utility>

namespace swr::cli {
namespace {

[[noreturn]] void reject_launcher(const std::string& message) {
  reject(message + "; say --shard I/N");
}

/// A launcher's variables as numbers.
class Variables {
 public:
  explicit Variables(const Environment& environment) : launcher_(environment.launcher) {}

  bool has(const char* name) const { return launcher_.contains(name); }

  int number(const char* name) const {
    const auto found = launcher_.find(name);
    if (found == launcher_.end()) {
      reject_launcher(std::string(name) + " is not set, but others of its launcher are");
    }
    const std::string& text = found->second;
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
      reject_launcher(std::string(name) + " is '" + text + "', not a whole number");
    }
    return value;
  }

  /// Index and count as two variables say them.
  ShardChoice rank(const char* index, const char* count) const {
    return checked({{number(index), number(count)}, index});
  }

  static ShardChoice checked(ShardChoice choice) {
    if (choice.shard.index >= choice.shard.count) {
      reject_launcher(choice.source + " says number " + std::to_string(choice.shard.index) +
                      " of " + std::to_string(choice.shard.count) +
                      " counted from 0; a job array without gaps, such as 0-7, would do");
    }
    return choice;
  }

 private:
  const std::map<std::string, std::string>& launcher_;
};

/// Task ids may begin anywhere and have a step.
std::optional<ShardChoice> array_element(const Variables& variables) {
  if (!variables.has("SLURM_ARRAY_TASK_ID")) {
    return std::nullopt;
  }
  const int first =
      variables.has("SLURM_ARRAY_TASK_MIN") ? variables.number("SLURM_ARRAY_TASK_MIN") : 0;
  const int step =
      variables.has("SLURM_ARRAY_TASK_STEP") ? variables.number("SLURM_ARRAY_TASK_STEP") : 1;
  const int id = variables.number("SLURM_ARRAY_TASK_ID");
  if (step == 0 || id < first || (id - first) % step != 0) {
    reject_launcher("SLURM_ARRAY_TASK_ID, _MIN and _STEP contradict each other");
  }
  return Variables::checked(
      {{(id - first) / step, variables.number("SLURM_ARRAY_TASK_COUNT")}, "SLURM_ARRAY_TASK_ID"});
}

/// The innermost launcher counts: under mpirun inside a Slurm job, every process sees the same
/// SLURM_PROCID, that of the process which mpirun started on the node. A batch script has a
/// SLURM_PROCID of 0 too, but is no step: what it runs is run once.
std::optional<ShardChoice> rank(const Variables& variables) {
  if (variables.has("OMPI_COMM_WORLD_RANK")) {
    return variables.rank("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  }
  if (variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID")) {
    return variables.rank("SLURM_PROCID", "SLURM_NTASKS");
  }
  if (variables.has("PMI_RANK")) {
    return variables.rank("PMI_RANK", "PMI_SIZE");
  }
  return std::nullopt;
}

std::filesystem::path worker_database(const std::filesystem::path& path, const ShardChoice& choice,
                                      bool is_queued) {
  std::filesystem::path file = shard_database(path, choice.shard);
  if (!is_queued || !choice.shard.is_everything()) {
    return file;
  }
  return file.replace_filename(file.stem().string() + "." + choice.name +
                               file.extension().string());
}

}  // namespace

ShardChoice choose_shard(const std::string& asked, const Environment& environment) {
  if (!asked.empty() && asked != "auto") {
    return {parse_shard(asked), "--shard"};
  }
  const Variables variables(environment);
  const auto element = array_element(variables);
  const auto within = rank(variables);
  if (element && within) {
    const Shard& outer = element->shard;
    const Shard& inner = within->shard;
    return {{outer.index * inner.count + inner.index, outer.count * inner.count},
            element->source + ", " + within->source};
  }
  if (element || within) {
    return element ? *element : *within;
  }
  if (asked == "auto") {
    reject_launcher("--shard auto finds no variables of Slurm, Open MPI or PMI");
  }
  return {};
}

TuneSession as_worker(const TuneSession& session, const ShardChoice& choice, std::size_t share,
                      std::size_t work) {
  TuneSession worker = session;
  const auto& queue = session.options.queue;
  const bool is_one_of_several = queue || !choice.shard.is_everything();
  const bool stores = session.common.database || session.options.replay.empty();
  if (session.common.database || (stores && is_one_of_several)) {
    worker.common.database = worker_database(database_path(session), choice, queue.has_value());
  }
  if (is_one_of_several) {
    // In one piece: other workers may write to the same terminal.
    session.err << "swr-tune: " +
                       (queue ? "queue " + queue->string()
                              : "shard " + to_string(choice.shard) + " (" + choice.source + ")") +
                       ": " + std::to_string(share) + " of " + std::to_string(work) + " problems" +
                       (stores ? ", database " + worker.common.database->string() : "") + "\n"
                << std::flush;
  }
  return worker;
}

std::vector<std::size_t> places_of(const TuneSession& session, const ShardChoice& worker,
                                   const std::vector<std::string>& identities) {
  if (!session.options.queue) {
    return share_of(identities, worker.shard);
  }
  std::vector<std::size_t> all(identities.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

WorkSource::WorkSource(const TuneSession& session, const ShardChoice& worker,
                       const std::vector<std::string>& identities, std::vector<std::size_t> places)
    : session_(session), places_(std::move(places)) {
  if (session.options.queue) {
    queue_.emplace(WorkQueue::Options{.directory = *session.options.queue,
                                      .worker = worker.name,
                                      .lease = std::chrono::seconds(session.options.lease_s)},
                   identities);
  }
}

std::optional<std::size_t> WorkSource::next(const std::function<bool()>& stop_requested) {
  if (queue_) {
    return queue_->claim(stop_requested);
  }
  const bool is_left = taken_ < places_.size() && !stop_requested();
  return is_left ? std::optional(places_[taken_++]) : std::nullopt;
}

void WorkSource::give_back() { queue_.reset(); }

void WorkSource::done() {
  if (queue_ && !queue_->finish()) {
    session_.err << "swr-tune: note: the lease of this problem expired and another worker took it; "
                    "both results are stored\n"
                 << std::flush;
  }
}

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
