// SPDX-License-Identifier: MIT
// Results of other tuners: T4, which says what it is of, and caches of Kernel Tuner, which do not.
#pragma once

#include "core/json.h"
#include "core/recorded_space.h"
#include "tuner/cli/options.h"

#include <filesystem>
#include <string>

namespace swr::cli {

/// What a cache of Kernel Tuner is of.
struct CacheSubject {
  ProblemText problem;
  std::string gpu = "auto";
};

/// --spec, --arg and --gpu.
void add_cache_subject_options(OptionList& options, CacheSubject& subject);

/// Of T4 results, or of a cache of Kernel Tuner, which is of the subject.
/// Throws: Error{unreadable}; Error{invalid_argument} where the cache is of another kernel.
RecordedSpace space_of_others(const Session& session, CacheSubject subject,
                              const std::filesystem::path& path, const Json& document);

}  // namespace swr::cli
