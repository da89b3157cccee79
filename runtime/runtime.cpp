// SPDX-License-Identifier: MIT
#include "core/no_fork.h"
#include "core/of_thread.h"
#include "db/missed_questions.h"
#include "db/problem_key.h"
#include "runtime/kernel_source.h"
#include "runtime/loaded_kernels.h"
#include <swr/constraints.h>
#include <swr/error.h>
#include <swr/kernel_spec.h>
#include <swr/runtime.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

namespace swr {
namespace {

/// The calls of a launch, with tensor maps from those of this thread's launches before.
const LaunchCalls& serving_calls() {
  static const LaunchCalls calls = [] {
    LaunchCalls changed = cuda_driver().launch_calls;
    changed.tensor_map_encode_tiled = encode_recent_tensor_map;
    return changed;
  }();
  return calls;
}

/// A kernel for a problem, asked of a runtime in one of its states.
struct Question {
  unsigned long long runtime = 0;  ///< Impl::id, of which no two are equal; 0 is none's.
  CUcontext context = nullptr;
  unsigned long long version = 0;
  ProblemKey problem;

  bool operator==(const Question&) const = default;
};

struct RecentAnswer {
  Question question;
  std::shared_ptr<const ReadyKernel> kernel;
};

std::atomic<unsigned long long> runtimes_made = 0;

}  // namespace

struct Runtime::Impl {
  explicit Impl(const RuntimeOptions& options)
      : source(options),
        may_compile(options.may_compile),
        database(options.database),
        lookup_options(options.lookup) {
    lookup_options.setting.overlay_digest = overlay_digest(options.generator);
    lookup = opened_lookup(lookup_options);
  }

  std::unique_ptr<Lookup> opened_lookup(const LookupOptions& asked) const {
    return database ? std::make_unique<Lookup>(*database, asked) : std::make_unique<Lookup>(asked);
  }

  unsigned long long version() const { return lookup->version(); }

  bool refresh() {
    const NoFork meanwhile;
    const std::lock_guard lock(objectives_mutex);
    for (const auto& [objective, other] : lookups_by_objective) {
      other->refresh();
    }
    return lookup->refresh();
  }

  LoadedKernels* loaded_in(CUcontext context) const {
    for (const auto& loaded : contexts) {
      if (loaded->context() == context) {
        return loaded.get();
      }
    }
    return nullptr;
  }

  /// Valid until this thread asks again. What it asked for before takes no lock.
  const ReadyKernel& get(CUcontext context, const Problem& problem) {
    // The version before choosing: a choice from an older state must not pass for one of a newer.
    const Question question{id, context, version(), problem_key(problem)};
    // What this thread asked for last, of all runtimes.
    auto& recent_answers = of_thread<std::array<RecentAnswer, 64>, Impl>();
    RecentAnswer& recent = recent_answers[hash_of(question.problem) % recent_answers.size()];
    if (recent.question != question) {
      recent = {question, shared(question, problem)};
    }
    return *recent.kernel;
  }

  /// What any thread found ready, or else is made ready now.
  std::shared_ptr<const ReadyKernel> shared(const Question& question, const Problem& problem) {
    if (auto ready = find(question)) {
      return ready;
    }
    const std::lock_guard loading(loading_mutex);
    // Another thread may have loaded it meanwhile.
    auto ready = find(question);
    return ready ? ready : load(question, problem);
  }

  /// Without waiting for anyone who loads.
  std::shared_ptr<const ReadyKernel> find(const Question& question) const {
    const std::shared_lock lock(contexts_mutex);
    const LoadedKernels* const loaded = loaded_in(question.context);
    return loaded == nullptr ? nullptr : loaded->find(question.problem, question.version);
  }

  /// Requires: loading_mutex, so that nobody else changes the contexts.
  std::shared_ptr<const ReadyKernel> load(const Question& question, const Problem& problem) {
    LoadedKernels& loaded = added(question.context);
    const auto [choice, kernel] = choose(problem, loaded.device());
    if (missed && choice.answer.level != MatchLevel::exact) {
      missed->note(problem);
    }
    auto ready = std::make_shared<const ReadyKernel>(loaded.load(problem, choice.answer, kernel));
    const std::unique_lock lock(contexts_mutex);
    loaded.remember(question.problem, question.version, ready);
    return ready;
  }

  /// The kernels of a context, which is added when it is new. Requires: loading_mutex.
  LoadedKernels& added(CUcontext context) {
    if (LoadedKernels* const loaded = loaded_in(context)) {
      return *loaded;
    }
    auto loaded = std::make_unique<LoadedKernels>(context, source);
    const std::unique_lock lock(contexts_mutex);
    return *contexts.emplace_back(std::move(loaded));
  }

  LoadedKernels& kernels_of(CUcontext context) {
    {
      const std::shared_lock lock(contexts_mutex);
      if (LoadedKernels* const loaded = loaded_in(context)) {
        return *loaded;
      }
    }
    const std::lock_guard loading(loading_mutex);
    return added(context);
  }

  Choice best(const Problem& problem, const DeviceInfo& device) {
    if (!database) {
      if (const auto exported = source.best_exported(problem, device)) {
        return *exported;
      }
    }
    if (const auto answer = best_by_spec(problem, device)) {
      return {*answer, database.has_value()};
    }
    return {lookup->best(problem, device), database.has_value()};
  }

  /// By the objective that a kernel's spec names, where the options name none and a run decided.
  std::optional<Answer> best_by_spec(const Problem& problem, const DeviceInfo& device) {
    const std::string objective = kernel_objective(problem.operation());
    if (objective == kTimeObjective || lookup_options.objective != kTimeObjective) {
      return std::nullopt;
    }
    const NoFork meanwhile;
    const std::lock_guard lock(objectives_mutex);
    std::unique_ptr<Lookup>& other = lookups_by_objective[objective];
    if (other == nullptr) {
      LookupOptions asked = lookup_options;
      asked.objective = objective;
      other = opened_lookup(asked);
    }
    return other->stored(problem, device);
  }

  struct ChosenKernel {
    Choice choice;
    CompiledKernel kernel;
  };

  ChosenKernel choose(const Problem& problem, const DeviceInfo& device) {
    const Choice choice = best(problem, device);
    if (auto kernel = source.find(problem, choice, device.sm_arch)) {
      return {choice, std::move(*kernel)};
    }
    if (may_compile) {
      try {
        return {choice, source.compile(problem, choice.answer.variant, device.sm_arch)};
      } catch (const Error& error) {
        // A program that serves from an export or a cache needs no compiler.
        if (error.code() != ErrorCode::no_nvrtc) {
          throw;
        }
        if (auto at_hand = find_at_hand(problem, device)) {
          return *at_hand;
        }
        throw;
      }
    }
    if (auto at_hand = find_at_hand(problem, device)) {
      return *at_hand;
    }
    throw Error(
        ErrorCode::not_compiled,
        "no kernel for " + to_string(problem) + " on " + device.name +
            " is exported, in the cache or among those that ship, and nothing may be compiled "
            "while serving; install swr-kernels, tune and export this kind of problem, or call "
            "prepare() with compiling allowed");
  }

  /// A kernel that exists: of what was tuned near by, which is often in the cache where what is
  /// best is not, or of what was exported.
  std::optional<ChosenKernel> find_at_hand(const Problem& problem, const DeviceInfo& device) const {
    const auto stored = lookup->stored(problem, device);
    const auto tuned = stored ? std::optional(Choice{*stored, database.has_value()}) : std::nullopt;
    for (const auto& choice : {tuned, source.best_exported(problem, device)}) {
      if (choice) {
        if (auto kernel = source.find(problem, *choice, device.sm_arch)) {
          return ChosenKernel{*choice, std::move(*kernel)};
        }
      }
    }
    return std::nullopt;
  }

  const unsigned long long id = ++runtimes_made;
  KernelSource source;
  bool may_compile;
  std::optional<std::filesystem::path> database;
  LookupOptions lookup_options;
  std::unique_ptr<Lookup> lookup;
  std::mutex objectives_mutex;
  std::map<std::string, std::unique_ptr<Lookup>> lookups_by_objective;
  /// Held while a kernel is chosen, compiled and loaded, and a missed question noted.
  std::mutex loading_mutex;
  std::unique_ptr<MissedQuestions> missed;
  mutable std::shared_mutex contexts_mutex;
  std::vector<std::unique_ptr<LoadedKernels>> contexts;
};

Runtime::Runtime(const RuntimeOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Runtime::~Runtime() = default;

void Runtime::launch(const Problem& problem, const void* call, const void* memory,
                     CUstream_st* stream) {
  const CUcontext context = enter_context(memory);
  const ReadyKernel& kernel = impl_->get(context, problem);
  use_recent_tensor_maps_of(context);
  kernel.launch->launch(call, {serving_calls(), kernel.functions, kernel.overlap, stream});
}

void Runtime::launch_fixed(const void* memory,
                           const std::function<void(const FixedSite&)>& launch) {
  const LoadedKernels& loaded = impl_->kernels_of(enter_context(memory));
  launch({loaded.device(), loaded.fixed_kernels(), serving_calls()});
}

Answer Runtime::prepare(const Problem& problem) {
  validate(problem);
  return impl_->get(enter_context(nullptr), problem).answer;
}

long long Runtime::prepare(const Problem& problem, const void* call, const void* memory) {
  validate(problem);
  return impl_->get(enter_context(memory), problem).launch->prepare(call);
}

Answer Runtime::best(const Problem& problem, const DeviceInfo& device) const {
  return impl_->best(problem, device).answer;
}

void Runtime::note_missed(const std::filesystem::path& file) {
  const std::lock_guard lock(impl_->loading_mutex);
  impl_->missed = std::make_unique<MissedQuestions>(file);
}

void Runtime::use_kernels(const std::filesystem::path& archive) {
  impl_->source.use_archive(archive);
}

bool Runtime::refresh() { return impl_->refresh(); }

}  // namespace swr
