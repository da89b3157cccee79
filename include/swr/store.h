// SPDX-License-Identifier: MIT
// The database of results: append what a tuning run found, ask for the best variant of a problem.
// Opening and asking need neither NVRTC nor a CUDA driver.
#pragma once

#include <swr/device.h>
#include <swr/problem.h>
#include <swr/result.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace swr {

/// How far the stored result can be trusted as an answer. Append-only.
enum class MatchLevel {
  exact,         ///< Measured for the same problem on the same device.
  nearest,       ///< Measured for another shape on the same device.
  same_arch,     ///< Measured on another device of the same architecture.
  default_only,  ///< Nothing stored fits: the built-in default variant.
  predicted,     ///< Not measured but predicted, for this or a near shape or device.
  modelled,      ///< Nothing near is stored: chosen from shape and device by a closed form.
};
std::string_view to_string(MatchLevel value);

/// The answer to "which variant for this problem on this device?".
struct Match {
  MatchLevel level = MatchLevel::default_only;
  /// The stored result; its provenance says measured or predicted.
  VariantResult result;
  /// The problem and device it was stored for.
  Problem problem;
  DeviceInfo device;
  /// Root of the summed squared log2 ratios of the sizes; 0 between equal ones.
  double distance = 0.0;
};

/// What results have in common that may be compared: no ranking mixes settings, and a question is
/// asked in one.
struct Setting {
  /// Of measured results; a prediction belongs to either.
  L2State l2_state = L2State::warm;
  /// As RunInfo::overlay_digest.
  std::string overlay_digest;

  auto operator<=>(const Setting&) const = default;
};

/// The objective of runs and questions that name none.
inline constexpr std::string_view kTimeObjective = "time";

/// Provenance of a tuning run: everything needed to judge its rows later.
struct RunInfo {
  std::string command;  ///< The command line.
  std::string swr_version;
  std::string templates_digest;
  /// overlay_digest() of the templates; empty for the built-in ones.
  std::string overlay_digest;
  std::string nvrtc_version;
  std::string driver_version;  ///< Empty when no driver took part.
  std::string l2_state;        ///< "warm" or "cold"; empty for predictions.
  /// What the run looked for the best of: kTimeObjective, or another objective's text.
  std::string objective = std::string(kTimeObjective);
  unsigned long long seed = 0;
  std::string strategy = "exhaustive";
  /// Limits of the search for each problem; empty without one.
  std::optional<long long> max_variants;
  std::optional<double> max_s;
  /// How results are taken, beyond the versions and the L2 state above, in a text of the caller's.
  /// Runs with equal text continue each other; an empty one continues nothing.
  std::string conditions;
  /// Earlier results are taken anew.
  bool starts_over = false;
};

/// A row of the results table with what it belongs to.
struct StoredResult {
  long long id = 0;
  Problem problem;
  DeviceInfo device;
  VariantResult result;
};

/// One variant of a comparison in shared rounds: its new measurement, and its mean time over the
/// winner's with a 95 percent interval.
struct Finalist {
  VariantResult result;
  double ratio = 1.0;
  double ratio_low = 1.0;
  double ratio_high = 1.0;
  /// Not told apart from the fastest, or not slower by enough to matter.
  bool tied = false;
};

/// Finals that were held.
struct StoredDecision {
  /// The winner first, then the others by ratio.
  std::vector<Finalist> finalists;
  /// The medians of the screening before, by finalist; empty where none is stored.
  std::vector<std::optional<double>> screening_us;
  /// The share below which a difference was a tie; empty in rows of schemas before 5.
  std::optional<double> tie_threshold;
};

/// A stored result that took part in a choice by an objective; the ratios are of the objective's
/// values.
struct RankedResult {
  long long result_id = 0;
  double ratio = 1.0;
  double ratio_low = 1.0;
  double ratio_high = 1.0;
  bool tied = false;
};

/// What a GPU took for the kernel that all GPUs of a run measure again and again, by which drift
/// and unequal cards show.
struct GpuReference {
  int gpu = 0;       ///< As --gpus counts.
  std::string card;  ///< What tells equal GPUs apart: the PCI bus id.
  /// The problem that the GPU tuned since its reference before; empty for its first.
  std::string tuned;
  std::string kernel;  ///< Problem and variant.
  ResultState state = ResultState::ok;
  double median_us = 0.0;  ///< 0 unless ok.
  /// Right after the samples.
  GpuCondition condition;
};

/// A run that was carried out elsewhere, with all it found for one problem on one device.
struct FinishedRun {
  RunInfo info;
  Problem problem;
  DeviceInfo device;
  std::vector<VariantResult> results;
};

/// One SQLite database file (WAL). A Store may be used by one thread at a time; several, in one
/// process or in many, may open the same file.
class Store {
 public:
  enum class Mode { read_only, read_write };
  /// Whose results a file holds: of GPUs and of the model, or of recordings in the place of a GPU.
  /// No file holds both, so that a replayed result never answers for a GPU.
  enum class Content { tuned, replayed };

  /// Opens or creates (read_write) the file.
  /// Throws: Error{not_found}, Error{unreadable} for a file that is no swr database, is damaged or
  /// is of other content, Error{not_writable}, Error{database_locked}, Error{schema_too_new}.
  Store(const std::filesystem::path& path, Mode mode, Content content = Content::tuned);
  /// An empty store in memory, for results that nobody keeps.
  static Store in_memory();
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Starts a run; its rows carry the returned id.
  /// Throws: Error{not_writable} when opened read_only; Error{database_locked}.
  long long begin_run(const RunInfo& info);

  /// Appends the runs with all their results in one transaction: every row of every run is stored,
  /// or none. Throws: as record().
  void record_finished(std::span<const FinishedRun> runs);

  /// Notes that the run did all it was asked to. Throws: as begin_run.
  void finish_run(long long run_id);

  /// What the run need not measure again: the newest measured result of every variant that a run
  /// of equal versions, L2 state and conditions has recorded for this problem and device since the
  /// last one that started over. Results of a throttled GPU are not among them.
  std::vector<StoredResult> known_results(long long run_id, const Problem& problem,
                                          const DeviceInfo& device) const;

  /// The newest decision among the runs whose results known_results() takes over; empty when they
  /// held no finals for this problem and device.
  std::optional<StoredDecision> known_decision(long long run_id, const Problem& problem,
                                               const DeviceInfo& device,
                                               std::string_view objective = kTimeObjective) const;

  /// Appends one result in a transaction of its own: what was recorded survives a crash. Not a
  /// prediction that equals the newest one, of equal versions. Returns the id of the row.
  /// Throws: Error{invalid_argument} naming a value that cannot be true, such as a successful
  /// result without a time; Error{not_writable} when opened read_only; Error{database_locked}.
  long long record(long long run_id, const Problem& problem, const DeviceInfo& device,
                   const VariantResult& result);

  /// Adds the counters of a measurement, or why there are none, to a row that waited for them.
  /// Throws: as record(); Error{invalid_argument} when the row has counters or is not there.
  void record_counters(long long result_id, const Measurement& measurement);

  /// The same of the measurement's accesses. Throws: as record_counters().
  void record_accesses(long long result_id, const Measurement& measurement);

  /// The same of the measurement's energy. Throws: as record_counters().
  void record_energy(long long result_id, const Measurement& measurement);

  /// Appends which of stored results is the best by an objective beside time, in one transaction.
  /// What is the best by time stays as it is.
  /// Throws: as record(); Error{invalid_argument} for a result that is not there.
  /// Requires: the best comes first; the objective is not kTimeObjective.
  void record_choice(long long run_id, const Problem& problem, const DeviceInfo& device,
                     std::string_view objective, std::span<const RankedResult> ranked,
                     double tie_threshold);

  /// Appends the finalists' results, which of them won and the share below which a difference was a
  /// tie, in one transaction. From then on the winner is the best for the problem on the device, in
  /// the run's setting. Returns the ids of the finalists' rows, in their order.
  /// Throws: as record(). Requires: the winner is the first finalist.
  std::vector<long long> record_decision(long long run_id, const Problem& problem,
                                         const DeviceInfo& device,
                                         std::span<const Finalist> finalists, double tie_threshold);

  /// Appends a reference to a run. Throws: as record().
  void record_reference(long long run_id, const DeviceInfo& device, const GpuReference& reference);

  /// Appends what another library's call took for a problem beside which the run was tuned, which
  /// is a reference too. Throws: as record().
  void record_peer(long long run_id, const Problem& problem, const DeviceInfo& device,
                   const std::string& call, double median_us);

  /// The newest time of each library's call for the problem on the device: of those the names.
  std::vector<std::pair<std::string, double>> peers(const Problem& problem,
                                                    const DeviceInfo& device) const;

  /// The references of a run in the order taken.
  std::vector<GpuReference> references(long long run_id) const;

  /// The best stored variant; empty when nothing of this kind of problem is stored for the
  /// device's architecture in this setting. Legal variants only. docs/db_schema.md gives the order
  /// of preference.
  /// Throws, as the following: Error{unreadable} naming the row whose values cannot be believed.
  std::optional<Match> best(const Problem& problem, const DeviceInfo& device,
                            const Setting& setting = {}) const;

  /// What answers where something of exactly this problem and device does, as Lookup::best answers
  /// with it: a result of the file, or one that came with swr, whose id is 0.
  std::optional<StoredResult> exact(const Problem& problem, const DeviceInfo& device,
                                    const Setting& setting = {}) const;

  /// The latest result of every variant, measured and predicted, for exactly this problem and
  /// device in this setting: successes first, measured before predicted, fastest first.
  std::vector<StoredResult> results(const Problem& problem, const DeviceInfo& device,
                                    const Setting& setting = {}) const;

  /// The settings of the stored runs, each once and in order.
  std::vector<Setting> settings() const;

  /// The result with this id. Throws: Error{invalid_argument} when there is none.
  StoredResult result(long long result_id) const;

  /// The run that a result belongs to.
  /// Throws: Error{invalid_argument} when there is no such result.
  RunInfo run_of(long long result_id) const;

  /// What exact() answers for every stored (problem, device) in this setting, for export.
  std::vector<StoredResult> winners(const Setting& setting = {}) const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace swr
