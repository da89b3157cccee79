// SPDX-License-Identifier: MIT
// Marks functions that host compilers, nvcc and NVRTC all compile: the schedule runs on the GPU,
// in the L2 model and in the CPU tests from one definition.
#pragma once

#if defined(__CUDACC__)
#define SWR_HD __host__ __device__
#else
#define SWR_HD
#endif
