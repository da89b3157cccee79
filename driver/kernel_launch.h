// SPDX-License-Identifier: MIT
// One launch of any kernel: clusters, and whether it may overlap the kernel before it. For the
// tuner, the runtime and exported packages, which carry this very file.
#pragma once

#include "driver/launch_calls.h"

#include <cuda.h>

namespace swr {

/// Whether a launch may start while the kernel before it on the stream ends (programmatic dependent
/// launch). It then prepares itself, and waits for the end of that kernel before it touches global
/// memory, so results are the same. Only for kernels that wait (CompiledKernel::may_overlap):
/// others would read what is not written yet.
enum class LaunchOverlap { allowed, none };

constexpr LaunchOverlap overlap_where(bool kernel_waits) {
  return kernel_waits ? LaunchOverlap::allowed : LaunchOverlap::none;
}

/// A one-dimensional grid.
struct CtaGrid {
  int ctas = 1;
  int threads = 32;
  int dynamic_smem_bytes = 0;
  int ctas_per_cluster = 1;
};

/// Once for a loaded function, before its first launch with so much dynamic shared memory.
inline CUresult allow_dynamic_smem(const LaunchCalls& calls, CUfunction function, int bytes) {
  return calls.function_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      bytes);
}

/// Enqueues one launch. Neither allocates nor synchronises, so it may be captured in a graph.
inline CUresult launch_grid(const LaunchCalls& calls, CUfunction function, const CtaGrid& grid,
                            LaunchOverlap overlap, CUstream stream, void** arguments) {
  CUlaunchAttribute attributes[2]{};
  unsigned attribute_count = 0;
  if (grid.ctas_per_cluster > 1) {
    CUlaunchAttribute& cluster = attributes[attribute_count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = static_cast<unsigned>(grid.ctas_per_cluster);
    cluster.value.clusterDim.y = 1;
    cluster.value.clusterDim.z = 1;
  }
  if (overlap == LaunchOverlap::allowed) {
    CUlaunchAttribute& start = attributes[attribute_count++];
    start.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    start.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig launch{};
  launch.gridDimX = static_cast<unsigned>(grid.ctas);
  launch.gridDimY = 1;
  launch.gridDimZ = 1;
  launch.blockDimX = static_cast<unsigned>(grid.threads);
  launch.blockDimY = 1;
  launch.blockDimZ = 1;
  launch.sharedMemBytes = static_cast<unsigned>(grid.dynamic_smem_bytes);
  launch.hStream = stream;
  launch.attrs = attributes;
  launch.numAttrs = attribute_count;
  return calls.launch_kernel_ex(&launch, function, arguments, nullptr);
}

}  // namespace swr
