// SPDX-License-Identifier: MIT
// The L2 model written the slow and obvious way, to check the fast one against.
#pragma once

#include "operations/attention/model/l2_traffic.h"

namespace swr {

/// One step at a time, every CTA on its own, K, V, Q and O tiles as separate cache entries in a
/// linked list ordered by last use.
L2Traffic naive_l2(const ScheduleShape& shape, long long capacity_sectors);

}  // namespace swr
