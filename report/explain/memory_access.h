// SPDX-License-Identifier: MIT
// What hardware counters say of how a kernel goes to memory: bank conflicts of shared memory and
// coalescing of global accesses, by kind of access, and the knobs that move them.
#pragma once

#include "core/json.h"
#include <swr/problem.h>
#include <swr/result.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace swr {

/// One kind of access to shared memory.
struct SmemAccess {
  std::string_view kind;
  std::string_view covers;  ///< The instructions.
  long long wavefronts = 0;
  long long conflicts = 0;  ///< Wavefronts that conflicts added.

  /// 0 is the best; 31/32 where all 32 lanes meet in one bank.
  double conflicts_per_wavefront() const;
};

/// One kind of access to global memory.
struct GlobalAccess {
  std::string_view kind;
  std::string_view covers;
  long long requests = 0;
  long long sectors = 0;
  long long bytes = 0;  ///< That threads asked for.

  double sectors_per_request() const;
  /// 32 is the best, but for lanes that read the same bytes.
  double bytes_per_sector() const;
};

/// The kinds that were counted and took place.
std::vector<SmemAccess> smem_accesses(const AccessCounters& accesses);
std::vector<GlobalAccess> global_accesses(const AccessCounters& accesses);

/// Over all kinds; empty where nothing of the sort was counted.
std::optional<double> conflicts_per_wavefront(const AccessCounters& accesses);
/// The sectors that TMA loads among them, which uses them whole.
std::optional<double> bytes_per_sector(const AccessCounters& accesses);

/// What these counters do not see.
std::string_view uncovered_accesses();

/// What to do about conflicts and about sectors of which little is used. Requires: a measurement
/// whose accesses were counted.
std::vector<std::string> access_steps_in_words(const Problem& problem, const VariantResult& result);

/// Why accesses are unknown; empty where they are known.
std::string accesses_unknown_because(const VariantResult& result);

/// All of it; null where accesses are unknown.
Json accesses_json(const Problem& problem, const VariantResult& result);

}  // namespace swr
