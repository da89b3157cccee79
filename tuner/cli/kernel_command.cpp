// SPDX-License-Identifier: MIT
#include "core/operation.h"
#include "core/reject.h"
#include "report/report.h"
#include "tuner/cli/gpu_choice.h"
#include "tuner/cli/tune_command.h"
#include "tuner/run/tuner.h"
#include <swr/error.h>
#include <swr/generator.h>
#include <swr/kernel_spec.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <vector>

namespace swr::cli {
namespace {

/// Stands for counts that are larger.
constexpr long long kUncounted = std::numeric_limits<long long>::max();

std::string count_text(long long count) {
  return count == kUncounted ? "more than 2^63" : std::to_string(count);
}

/// All points: those that are dropped, and the variants.
long long points_of(const std::map<std::string, long long>& counts, std::size_t variants) {
  auto sum = static_cast<long long>(variants);
  for (const auto& [constraint, count] : counts) {
    if (__builtin_add_overflow(sum, count, &sum)) {
      return kUncounted;
    }
  }
  return sum;
}

/// Points that satisfy the spec, with those of a large space that are not looked at.
long long satisfying(const SearchSpace& space) {
  const auto unlisted = space.left_out.find("listed");
  return static_cast<long long>(space.variants.size() + space.dropped.size()) +
         (unlisted == space.left_out.end() ? 0 : unlisted->second);
}

Json space_json(const Problem& problem, const SearchSpace& space) {
  const auto dropped = dropped_by_constraint(space.dropped, space.left_out);
  Json json = Json::object();
  json["problem"] = problem;
  json["points"] = points_of(dropped, space.variants.size());
  json["legal"] = satisfying(space);
  json["variants"] = space.variants.size();
  json["dropped_by_constraint"] = dropped;
  return json;
}

void print_space(std::ostream& out, const Problem& problem, const DeviceInfo& device,
                 const SearchSpace& space) {
  const auto dropped = dropped_by_constraint(space.dropped, space.left_out);
  const std::size_t variants = space.variants.size();
  out << to_string(problem) << ": " << variants << " variants of "
      << count_text(points_of(dropped, variants)) << " points; " << satisfying(space)
      << " satisfy the spec, " << space.dropped.size() << " of these cannot be launched on "
      << device.name << "\n";
  for (const auto& [constraint, count] : dropped) {
    out << "dropped by " << constraint << ": " << count_text(count);
    const auto example = std::ranges::find(space.dropped, constraint, &DroppedVariant::constraint);
    if (example != space.dropped.end()) {
      out << " (" << example->reason << ", with " << to_key(example->variant) << ")";
    }
    out << "\n";
  }
}

int enumerate(const TuneSession& session, const GpuChoice& gpu, const std::vector<Problem>& wanted,
              const KernelSpec& spec) {
  Json all = Json::object();
  all["notes"] = spec.notes;
  all["spaces"] = Json::array();
  for (const Problem& problem : wanted) {
    const SearchSpace space =
        enumerate_space(problem, gpu.device, space_options(session.options.space));
    if (session.common.json) {
      all["spaces"].push_back(space_json(problem, space));
    } else {
      print_space(session.out, problem, gpu.device, space);
    }
  }
  if (session.common.json) {
    session.out << json_document(all);
  }
  return kExitSuccess;
}

/// The usual variant, then others spread over the space.
std::vector<Variant> representatives(const Problem& problem, const DeviceInfo& device,
                                     const SearchSpace& space, std::size_t count) {
  std::vector<Variant> all{default_variant(problem, device)};
  if (std::ranges::find(space.variants, all.front()) == space.variants.end()) {
    all.front() = space.variants.front();  // --axis left the usual one out.
  }
  count = std::min(count, space.variants.size());
  for (std::size_t i = 0; all.size() < count && i < space.variants.size(); ++i) {
    const std::size_t place = i * space.variants.size() / count % space.variants.size();
    if (std::ranges::find(all, space.variants[place]) == all.end()) {
      all.push_back(space.variants[place]);
    }
  }
  return all;
}

void print_compiled(std::ostream& out, const std::string& what, const CompiledKernel& kernel) {
  const KernelResources& used = kernel.resources;
  out << "sm_" << kernel.sm_arch << "  " << what << "  registers " << used.registers_per_thread
      << ", static shared memory " << used.static_smem_bytes << " bytes, spilled "
      << used.spill_store_bytes << " bytes\n";
}

int compile(const TuneSession& session, const GpuChoice& gpu, const std::vector<Problem>& wanted) {
  const Generator generator(supervised_generator_options(session, !session.options.no_isolation));
  const auto count = static_cast<std::size_t>(session.options.budget.value_or(1));
  std::size_t failed = 0;
  const auto attempt = [&](const std::string& what, const auto& compiled) {
    try {
      print_compiled(session.out, what, compiled());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::compile_failed) {
        throw;
      }
      ++failed;
      session.out << "failed  " << what << "  " << error.what() << "\n";
    }
  };
  const int sm_arch = gpu.device.sm_arch;
  for (const Problem& problem : wanted) {
    const SearchSpace space =
        require_variants(problem, gpu.device, space_options(session.options.space));
    if (const auto reference = problem.operation().reference_program(problem)) {
      attempt("reference", [&] { return generator.compile_program(*reference, sm_arch); });
    }
    for (const Variant& variant : representatives(problem, gpu.device, space, count)) {
      attempt(to_key(variant), [&] { return generator.compile(problem, variant, sm_arch); });
    }
  }
  if (failed > 0) {
    throw Error(ErrorCode::compile_failed,
                failed == 1 ? std::string("1 kernel cannot be compiled; its error is above")
                            : std::to_string(failed) +
                                  " kernels cannot be compiled; their errors are above");
  }
  return kExitSuccess;
}

void print_notes(const TuneSession& session, const KernelSpec& spec) {
  const bool has_reference =
      !spec.reference.empty() || std::ranges::any_of(spec.arguments, [](const KernelArgument& one) {
        return !one.expected_file.empty();
      });
  for (const std::string& note : spec.notes) {
    session.err << "swr-tune: note: " << note << "\n";
  }
  if (!has_reference) {
    session.err << "swr-tune: note: " << spec.name
                << " has no reference: outputs are compared with those of the first two variants "
                   "that agree\n";
  }
  session.err << std::flush;
}

constexpr const char* kKernelFooter =
    R"(SPEC is swr's own JSON, a T1 file, or a .cu file with pragmas (docs/kernels.md). Its code runs on the GPU, in a process of its own; nothing of it is executed on the host.

Examples:
  swr-tune kernel blur.json --arg n=100000,1000000
  swr-tune kernel blur.json --axis block_size_x=64,128 --budget 200
  swr-tune kernel blur.json --enumerate --gpu gb10
  swr-tune kernel blur.json --compile-only --gpu h200
  swr-tune query --spec blur.json --arg n=500000)";

struct KernelArguments : TuneArguments {
  std::vector<std::string> axes;  ///< NAME=VALUE[,VALUE] of parameters.
  bool enumerates = false;
  bool compiles_only = false;
};

/// Throws: Error{no_driver} that says what can be done with a kernel where no GPU is.
GpuChoice gpu_for(const Session& session, const std::string& gpu) {
  try {
    return choose_gpu(gpu);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::no_driver) {
      throw;
    }
    throw Error(ErrorCode::no_driver,
                "no GPU is here, and kernels of users are measured, not predicted; without one: "
                "swr-tune kernel " +
                    session.common.specs.front().string() +
                    " --compile-only --gpu h200, or --dry-run or --enumerate with --gpu");
  }
}

/// The run of tune that is asked, with the kernel in the place of --op.
TuneSession session_of(const Session& session, const KernelArguments& asked) {
  TuneSession tuned{session, asked};
  const Operation& kernel = *take_kernel(session, tuned.options.problem);
  for (const std::string& axis : asked.axes) {
    const auto [name, values] = named_values(axis, "--axis");
    if (find_axis(kernel, name) == nullptr) {
      reject("--axis: the kernel has no parameter '" + name + "'; its parameters are " +
             names_of(kernel.axes().subspan(1)));
    }
    tuned.options.space.axis_values[name] = values;
  }
  return tuned;
}

int run_kernel(const Session& asked_session, const KernelArguments& asked) {
  TuneSession session = session_of(asked_session, asked);
  TuneArguments& options = session.options;
  const KernelSpec spec = read_kernel_spec(session.common.specs.front());
  if (!session.common.quiet) {
    print_notes(session, spec);
  }
  if (!options.against.empty() && (asked.enumerates || asked.compiles_only || options.dry_run)) {
    reject(
        "--against times a call beside the best variant, and --compile-only, --enumerate and "
        "--dry-run time none");
  }
  if (!asked.enumerates && !asked.compiles_only) {
    const bool is_absent =
        options.gpus.empty() && gpu_for(session, options.gpu).profile.has_value();
    if (is_absent && !options.dry_run) {
      reject(
          "there is no model of kernels of users: tune on the GPU itself, or say --compile-only, "
          "--dry-run or --enumerate with --gpu " +
          options.gpu);
    }
    if (options.objective.empty() && !options.dry_run) {
      options.objective = spec.objective;
    }
    return run_tune(session);
  }
  const GpuChoice gpu = gpu_for(session, options.gpu);
  const std::vector<Problem> wanted = problems(options.problem);
  return asked.enumerates ? enumerate(session, gpu, wanted, spec) : compile(session, gpu, wanted);
}

}  // namespace

void add_kernel(CommandLine& line) {
  auto [options, kernel] = line.add<KernelArguments>(
      {.name = "kernel",
       .meaning = "Tune a CUDA kernel of your own",
       .footer = kKernelFooter,
       .group = "Tune"},
      run_kernel, [](const Session& session, const KernelArguments& asked) {
        return run_measure_worker({session, asked});
      });
  options.add("SPEC", options.common().specs, "The kernel's spec",
              {.is_required = true, .role = FileRole::input});
  options.add("--arg NAME=N[,N]", kernel.problem.sizes,
              "A size of the problem; a list is one problem each", {.group = "Problem"});
  options.add("--axis NAME=V[,V]", kernel.axes, "Values of a parameter to search, in place of all",
              {.group = "Axes"});
  CLI::Option* const enumerate =
      options.add("--enumerate", kernel.enumerates,
                  "Say how many variants there are and what drops others, and compile nothing");
  options.add("--compile-only", kernel.compiles_only,
              "Compile --budget variants, one unless it says more, and measure nothing",
              {.excludes = enumerate});
  CLI::Option* const gpus = add_gpus_options(options, kernel);
  add_run_options(options, kernel, gpus);
}

}  // namespace swr::cli
