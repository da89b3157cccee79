/* SPDX-License-Identifier: MIT
 * Kernels of your own (docs/kernels.md), for C: their specs, what is best for them, and launches.
 */
#pragma once

#include <swr/swr_c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that this process knows, as long as it lives. */
typedef struct swr_kernel swr_kernel;

/* An argument of a launch: for a vector a pointer to device memory, else the scalar itself. */
typedef struct swr_kernel_argument {
  const void* bytes; /* The pointer or the scalar, not what it points to. */
  uint64_t size;
} swr_kernel_argument;

typedef struct swr_kernel_answer {
  char variant[512]; /* The key, one name=value per parameter. */
  int32_t match;     /* swr_match */
  int32_t on_same_device;
  double distance; /* From the sizes that were tuned, in octaves. */
  double time_us;  /* Expected; negative when unknown. */
  int64_t result_id;
} swr_kernel_answer;

/* Reads a spec and makes the kernel known. An equal spec gives the same kernel. */
swr_status swr_kernel_register(const char* spec_file, const swr_kernel** kernel);
/* Its name in databases, which ends in a digest of all that its results depend on. */
const char* swr_kernel_name(const swr_kernel* kernel);

/* What would run on a device, which need not be present. `sizes` are in the spec's order, a number
 * for each. */
swr_status swr_runtime_best_kernel(const swr_runtime* runtime, const swr_kernel* kernel,
                                   const int32_t* sizes, int32_t size_count,
                                   const swr_device* device, swr_kernel_answer* answer);

/* Enqueues all launches of the kernel on `stream`, with arguments in the spec's order. `memory` is
 * device memory of the call: where no context is current, its own is taken. */
swr_status swr_runtime_launch_kernel(swr_runtime* runtime, const swr_kernel* kernel,
                                     const int32_t* sizes, int32_t size_count,
                                     const swr_kernel_argument* arguments, int32_t argument_count,
                                     const void* memory, void* stream);

#ifdef __cplusplus
}
#endif
