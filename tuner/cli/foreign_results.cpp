// SPDX-License-Identifier: MIT
#include "tuner/cli/foreign_results.h"

#include "core/operation.h"
#include "core/printable.h"
#include "report/other_formats.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include <swr/error.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace swr::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

/// "add" of "math::add<float, 128>".
std::string bare_name(const std::string& entry) {
  const std::string name = entry.substr(0, entry.find('<'));
  return name.substr(name.find_last_of(": ") + 1);
}

void require_kernel(const Json& cache, const Problem& problem, const DeviceInfo& device) {
  if (!cache.contains("kernel_name")) {
    return;
  }
  const Operation& operation = problem.operation();
  std::vector<std::string> known{std::string(operation.given_name())};
  if (const auto program = operation.program(problem, operation.default_variant(problem, device))) {
    known.insert(known.end(), program->kernels.begin(), program->kernels.end());
  }
  const Json& name = cache["kernel_name"];
  const std::string wanted = name.is_string() ? bare_name(name.get<std::string>()) : "";
  if (std::ranges::find(known, wanted, bare_name) == known.end()) {
    refuse("it is of the kernel " + printable_line(name.dump()) + ", and the spec of " +
           known.back());
  }
}

/// Whether each length of Kernel Tuner's problem size is a size of the problem. What a function of
/// Python computes is not known.
bool has_problem_size(const Json& size, const Problem& problem) {
  if (size.is_array()) {
    return std::ranges::all_of(
        size, [&](const Json& one) { return !one.is_array() && has_problem_size(one, problem); });
  }
  return size == 1 || std::ranges::any_of(problem.operation().fields(), [&](const auto& field) {
           return size == field.read(problem.members());
         });
}

/// Sizes of a spec may be others than those that Kernel Tuner divides among blocks: what --arg says
/// is believed, and noted.
void compare_problem_size(const Session& session, const CacheSubject& subject, const Json& cache,
                          const Problem& problem) {
  const Json size = cache.value("problem_size", Json(1));
  if (has_problem_size(size, problem)) {
    return;
  }
  const std::string differs = "the cache says that its problem size is " +
                              printable_line(size.dump()) + ", and the problem is " +
                              to_string(problem);
  if (subject.problem.sizes.empty() && !problem.operation().fields().empty()) {
    refuse(differs + "; name its sizes with --arg");
  }
  session.err << "swr-tune: note: " << differs << "\n";
}

/// What the spec and the sizes of the command do not allow cannot have been measured with them;
/// only values that a parameter has can have failed.
void require_allowed(const RecordedSpace& space) {
  for (const VariantResult& result : space.results) {
    const auto broken =
        space.problem.operation().broken_constraint(space.problem, result.variant, space.device);
    if (broken && (result.state == ResultState::ok || broken->constraint.name == "values")) {
      refuse("it has a row for " + to_key(result.variant) + ", which the spec does not allow (" +
             std::string(broken->constraint.name) + ": " + broken->reason +
             "); name the spec and the sizes of its kernel");
    }
  }
}

RecordedSpace space_of_cache(const Session& session, CacheSubject& subject, const Json& document) {
  const std::vector<Problem> wanted = take_kernel(session, subject.problem) != nullptr
                                          ? problems(subject.problem)
                                          : std::vector<Problem>();
  if (session.common.specs.empty() || wanted.size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "it is a cache of Kernel Tuner, which is of one problem of one kernel: name its "
                "--spec, the sizes with --arg, and the --gpu");
  }
  const DeviceInfo device = choose_gpu(subject.gpu).device;
  require_kernel(document, wanted.front(), device);
  const std::string measured_on = document.value("device_name", Json()).dump();
  if (document.contains("device_name") && measured_on != Json(device.name).dump()) {
    session.err << "swr-tune: note: the cache says that it was measured on "
                << printable_line(measured_on) << "; its times are taken for " << device.name
                << "\n";
  }
  RecordedSpace space = read_t4(t4_of_cache(document, wanted.front(), device));
  compare_problem_size(session, subject, document, space.problem);
  require_allowed(space);
  return space;
}

}  // namespace

void add_cache_subject_options(OptionList& options, CacheSubject& subject) {
  add_spec_options(options, subject.problem);
  add_gpu_option(options, subject.gpu);
}

RecordedSpace space_of_others(const Session& session, CacheSubject subject,
                              const std::filesystem::path& path, const Json& document) {
  try {
    return is_kernel_tuner_cache(document) ? space_of_cache(session, subject, document)
                                           : read_t4(document);
  } catch (const Error& error) {
    throw Error(error.code(), path.string() + ": " + error.what());
  }
}

}  // namespace swr::cli
