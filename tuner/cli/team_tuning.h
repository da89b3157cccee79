// SPDX-License-Identifier: MIT
// Tunes the problems of one command on its GPU, or on each of several at once, into one database.
#pragma once

#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/interrupt.h"
#include "tuner/cli/report_sink.h"
#include "tuner/cli/tune_command.h"
#include "tuner/cli/work_source.h"
#include "tuner/distribute/gpu_history.h"
#include "tuner/distribute/gpu_team.h"
#include "tuner/run/range_search.h"
#include "tuner/run/tuner.h"
#include <swr/device.h>
#include <swr/generator.h>
#include <swr/problem.h>
#include <swr/store.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

namespace swr::cli {

// --against: times of what others call for a problem, by a Python that has PyTorch.

/// Whose calls, and where they are looked for.
struct PeerChoice {
  std::string peer;    ///< torch or cublaslt.
  std::string python;  ///< Of the helper process.
  int ordinal = 0;     ///< Of the GPU.
  L2State l2_state = L2State::warm;
};

/// Of --against on a GPU that is present.
PeerChoice peer_choice(const TuneSession& session, const GpuChoice& gpu);

/// Throws: Error{not_found} saying what is missing, or which problem has no such call.
void require_peer(const PeerChoice& choice, std::span<const Problem> problems);

/// Throws: as require_peer().
PeerTime time_peer(const PeerChoice& choice, const Problem& problem, const DeviceInfo& device);

/// What all GPUs of a command share. Everything must outlive the tuning.
struct TuningTools {
  /// Starts what measures on a GPU, or models it; called on the thread that will use it.
  std::function<std::unique_ptr<Evaluator>(const GpuChoice&)> start;
  const TuneSession& session;
  const Generator& generator;
  const InterruptListener& interrupt;
  /// The list that work is given by places of.
  std::span<const Problem> problems;
  WorkSource& work;
  ReportOrder& reports;
  ProgressSinks& progress;
  /// Of a range of lengths; nullptr for a list.
  RangeSearch* range = nullptr;
};

class TeamTuning final : public TeamWork {
 public:
  /// One member per GPU, all of them equal; `options` but for the run and the finals, which every
  /// problem has its own of. Opens the database. Throws: what Store's constructor throws.
  TeamTuning(TuningTools tools, std::span<const GpuChoice> gpus, TuneOptions options, RunInfo info);

  std::unique_ptr<Evaluator> start(std::size_t member) override;
  void check(std::size_t member, Evaluator& evaluator, std::optional<std::size_t> tuned) override;
  void tune(std::size_t member, Evaluator& evaluator, std::size_t place) override;
  void lost(std::size_t member, const Error& why) override;

  /// Notes in the database that the runs did all they were asked to, if they did.
  void finish();

  /// With --gpus; call it when all is done.
  std::vector<GpuHistory> histories() const;
  bool every_problem_solved() const { return every_problem_solved_; }

 private:
  /// What a GPU has for itself; only its thread uses it.
  struct Member {
    GpuChoice gpu;
    Store store;
    GpuHistory history;
  };

  bool compares_gpus() const { return !tools_.session.options.gpus.empty(); }
  void begin_runs(Store& store);
  TuneReport tune_once(std::size_t member, Evaluator& evaluator, std::size_t place,
                       std::size_t repetition);
  std::optional<Agreement> repeat(std::size_t member, Evaluator& evaluator, std::size_t place);
  KernelSource kernels(const Problem& problem, const Evaluator& evaluator);
  /// Of --against, into the report and the database.
  void time_others(Member& one, TuneReport& report, long long run_id) const;

  TuningTools tools_;
  TuneOptions options_;
  RunInfo info_;
  /// Bounds the compilations of all GPUs together.
  std::counting_semaphore<> compile_slots_;
  std::deque<Member> members_;
  std::once_flag runs_begun_;
  /// One for each repetition.
  std::vector<long long> run_ids_;
  std::atomic<bool> every_problem_solved_ = true;
  std::atomic<bool> finished_ = true;
};

}  // namespace swr::cli
