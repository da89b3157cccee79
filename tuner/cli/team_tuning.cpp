// SPDX-License-Identifier: MIT
#include "tuner/cli/team_tuning.h"

#include "core/bounded_json.h"
#include "core/embedded_file.h"
#include "core/json.h"
#include "tuner/run/compile_queue.h"
#include <swr/error.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <utility>

namespace swr {

std::span<const EmbeddedFile> peer_files();

}  // namespace swr

namespace swr::cli {
namespace {

/// The database may lie in a directory that does not exist yet.
Store open_store(const std::filesystem::path& path) {
  std::error_code ignored_until_open;
  std::filesystem::create_directories(path.parent_path(), ignored_until_open);
  return Store(path, Store::Mode::read_write);
}

/// Holds a slot while it lives.
class Slot {
 public:
  explicit Slot(std::counting_semaphore<>& slots) : slots_(slots) { slots_.acquire(); }
  ~Slot() { slots_.release(); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  std::counting_semaphore<>& slots_;
};

/// Lets choices of several runs meet in rounds of their own.
MeetAgain meet_again(const Problem& problem, Evaluator& evaluator, const KernelSource& kernels,
                     unsigned long long seed) {
  return [&problem, &evaluator, &kernels, seed](std::span<const Variant> choices) {
    constexpr int kRaces = 200;
    return slowdowns_in_rounds(problem, evaluator, kernels, choices, kRaces, {.seed = seed});
  };
}

}  // namespace

TeamTuning::TeamTuning(TuningTools tools, std::span<const GpuChoice> gpus, TuneOptions options,
                       RunInfo info)
    : tools_(std::move(tools)),
      options_(std::move(options)),
      info_(std::move(info)),
      compile_slots_(thread_count(options_.compile_threads)) {
  for (const GpuChoice& gpu : gpus) {
    members_.push_back({.gpu = gpu,
                        .store = open_store(database_path(tools_.session)),
                        .history = {.gpu = gpu.ordinal, .card = gpu.card}});
  }
}

std::unique_ptr<Evaluator> TeamTuning::start(std::size_t member) {
  return tools_.start(members_[member].gpu);
}

void TeamTuning::check(std::size_t member, Evaluator& evaluator, std::optional<std::size_t> tuned) {
  Member& one = members_[member];
  std::call_once(runs_begun_, [&] { begin_runs(one.store); });
  if (!compares_gpus() || tools_.interrupt.interrupted()) {
    return;
  }
  GpuReference reference = measure_reference(evaluator, kernels(reference_problem(), evaluator));
  reference.gpu = one.gpu.ordinal;
  reference.card = one.gpu.card;
  reference.tuned = tuned ? to_string(tools_.problems[*tuned]) : "";
  one.store.record_reference(run_ids_.front(), evaluator.device(), reference);
  one.history.references.push_back(std::move(reference));
}

void TeamTuning::begin_runs(Store& store) {
  for (int i = 0; i < tools_.session.options.repeat; ++i) {
    run_ids_.push_back(store.begin_run(info_));
  }
}

void TeamTuning::tune(std::size_t member, Evaluator& evaluator, std::size_t place) {
  tools_.reports.restart(place);
  auto agreement = repeat(member, evaluator, place);
  tools_.reports.done(place, std::move(agreement));
  if (!tools_.interrupt.interrupted()) {
    tools_.work.done();
  }
}

/// Tunes as often as asked for. Stops early after an interrupted or fruitless run; without that,
/// several runs give an agreement.
std::optional<Agreement> TeamTuning::repeat(std::size_t member, Evaluator& evaluator,
                                            std::size_t place) {
  std::vector<TuneReport> runs;
  for (std::size_t i = 0; i < run_ids_.size(); ++i) {
    runs.push_back(tune_once(member, evaluator, place, i));
    tools_.reports.add(place, runs.back());
    const bool is_solved = runs.back().best() != nullptr;
    const bool had_no_time = runs.back().out_of_time && runs.back().results.empty();
    every_problem_solved_ = every_problem_solved_ && (is_solved || had_no_time);
    if (runs.back().interrupted || !is_solved) {
      return std::nullopt;
    }
  }
  if (runs.size() == 1) {
    return std::nullopt;
  }
  const Problem& problem = tools_.problems[place];
  const KernelSource source = kernels(problem, evaluator);
  return compare_runs(runs, meet_again(problem, evaluator, source, tools_.session.options.seed));
}

TuneReport TeamTuning::tune_once(std::size_t member, Evaluator& evaluator, std::size_t place,
                                 std::size_t repetition) {
  constexpr unsigned long long kSeedsApart = 1000;
  const Problem& problem = tools_.problems[place];
  Member& one = members_[member];
  TuneOptions options = options_;
  options.run_id = run_ids_[repetition];
  // Each repetition draws another order in its finals.
  options.finals = FinalsOptions{.seed = tools_.session.options.seed + kSeedsApart * repetition};
  if (tools_.range != nullptr) {
    options.rivals = tools_.range->rivals(place);
  }
  EventLog& events = tools_.progress.events(member);
  events.announce(problem, evaluator.device(), options.provenance);
  TuneReport report = swr::tune(problem, evaluator, kernels(problem, evaluator), one.store, options,
                                tools_.progress.progress(member));
  time_others(one, report, options.run_id);
  events.finish(report);
  if (tools_.range != nullptr && !report.interrupted) {
    tools_.range->learn(place, report);
  }
  finished_ = finished_ && !report.interrupted && !report.out_of_time;
  return report;
}

void TeamTuning::time_others(Member& one, TuneReport& report, long long run_id) const {
  if (tools_.session.options.against.empty() || report.interrupted || report.best() == nullptr) {
    return;
  }
  try {
    const PeerTime peer =
        time_peer(peer_choice(tools_.session, one.gpu), report.problem, report.device);
    one.store.record_peer(run_id, report.problem, report.device, peer.call, peer.median_us);
    report.peers.push_back(peer);
  } catch (const Error& error) {
    // What was tuned is reported all the same.
    tools_.progress.quietly([&] {
      tools_.session.err << "swr-tune: note: " << error.what() << "\n" << std::flush;
    });
  }
}

KernelSource TeamTuning::kernels(const Problem& problem, const Evaluator& evaluator) {
  return [this, problem, sm_arch = evaluator.device().sm_arch](const Variant& variant) {
    const Slot slot(compile_slots_);
    return tools_.generator.compile(problem, variant, sm_arch);
  };
}

void TeamTuning::lost(std::size_t member, const Error& why) {
  Member& one = members_[member];
  one.history.lost_because = why.what();
  if (members_.size() > 1) {
    tools_.progress.quietly([&] {
      tools_.session.err << "swr-tune: note: GPU " << one.gpu.ordinal
                         << " measures no further, others do its work: " << why.what() << "\n"
                         << std::flush;
    });
  }
}

void TeamTuning::finish() {
  if (!finished_ || tools_.interrupt.interrupted()) {
    return;
  }
  for (const long long run_id : run_ids_) {
    members_.front().store.finish_run(run_id);
  }
}

std::vector<GpuHistory> TeamTuning::histories() const {
  std::vector<GpuHistory> histories;
  for (const Member& member : members_) {
    histories.push_back(member.history);
  }
  return histories;
}

namespace {

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

struct ClosePipe {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

/// What a command prints, errors included.
std::string output_of(const std::string& command) {
  constexpr std::size_t kMost = 1 << 16;
  const std::unique_ptr<FILE, ClosePipe> pipe(popen((command + " 2>&1").c_str(), "r"));
  std::string output;
  std::array<char, 4096> part{};
  while (pipe != nullptr && output.size() < kMost) {
    const std::size_t count = fread(part.data(), 1, part.size(), pipe.get());
    if (count == 0) {
      break;
    }
    output.append(part.data(), count);
  }
  return output;
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is the beginning.
}

[[noreturn]] void fail(const PeerChoice& choice, const std::string& why) {
  throw Error(ErrorCode::not_found, "--against " + choice.peer + ": " + why);
}

/// Null for what is no answer, such as the shell's word that there is no such program.
Json read_answer(const std::string& line) {
  try {
    return parse_json(line, "the helper's answer");
  } catch (const Error&) {
    return {};
  }
}

Json ask(const PeerChoice& choice, std::span<const Problem> problems, Json more) {
  more["peer"] = choice.peer;
  more["problems"] = Json::array();
  for (const Problem& problem : problems) {
    more["problems"].push_back(problem);
  }
  const std::string line = last_line(output_of(shell_quoted(choice.python) + " -c " +
                                               shell_quoted(peer_files().front().text) + " " +
                                               shell_quoted(more.dump())));
  const Json answer = read_answer(line);
  if (!answer.is_object()) {
    fail(choice, line.empty() ? choice.python + " said nothing" : line);
  }
  if (answer.contains("error")) {
    fail(choice, answer["error"].get<std::string>());
  }
  return answer;
}

}  // namespace

PeerChoice peer_choice(const TuneSession& session, const GpuChoice& gpu) {
  return {.peer = session.options.against,
          .python = session.environment.python.value_or("python3"),
          .ordinal = gpu.ordinal,
          .l2_state = session.common.l2_state};
}

void require_peer(const PeerChoice& choice, std::span<const Problem> problems) {
  ask(choice, problems, {{"probe", true}});
}

PeerTime time_peer(const PeerChoice& choice, const Problem& problem, const DeviceInfo& device) {
  const Json answer = ask(choice, {&problem, 1},
                          {{"probe", false},
                           {"gpu", choice.ordinal},
                           {"l2", std::string(to_string(choice.l2_state))},
                           {"l2_bytes", device.l2_bytes}});
  const Json time = answer.value("median_us", Json());
  if (!time.is_number() || !(time.get<double>() > 0.0)) {
    fail(choice, "the helper gave no time");
  }
  return {.call = choice.peer + " " + answer.value("version", "") + " " + answer.value("call", ""),
          .median_us = time.get<double>()};
}

}  // namespace swr::cli
