// SPDX-License-Identifier: MIT
#include "tuner/cli/foreign_results.h"

#include "core/operation.h"
#include "core/printable.h"
#include "report/other_formats.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/gpu_choice.h"
#include <swr/error.h>

#include <optional>
#include <vector>

namespace swr::cli {
namespace {

/// What the spec and the sizes of the command do not allow cannot have been measured with them.
void require_allowed(const RecordedSpace& space) {
  for (const VariantResult& result : space.results) {
    const auto broken = result.state == ResultState::ok
                            ? space.problem.operation().broken_constraint(
                                  space.problem, result.variant, space.device)
                            : std::nullopt;
    if (broken) {
      throw Error(ErrorCode::invalid_argument,
                  "it has a time of " + to_key(result.variant) +
                      ", which the spec does not allow (" + std::string(broken->constraint.name) +
                      ": " + broken->reason + "); name the spec and the sizes of its kernel");
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
  const std::string measured_on = document.value("device_name", Json()).dump();
  if (document.contains("device_name") && measured_on != Json(device.name).dump()) {
    session.err << "swr-tune: note: the cache says that it was measured on "
                << printable_line(measured_on) << "; its times are taken for " << device.name
                << "\n";
  }
  RecordedSpace space = read_t4(t4_of_cache(document, wanted.front(), device));
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
