// SPDX-License-Identifier: MIT
// Launches GEMM kernels of cubins for fp8_gemm.py, through the function that the tuner, the runtime
// and packages launch with. Build: see kernels.py.
#include "operations/gemm/gemm_launch.h"

#include <cuda.h>

#include <map>
#include <string>

namespace {

/// What Python fills in: every member of HopperGemmConfig and the choices made at launch.
struct Launch {
  int dtype, output, layout, reads_c, tile_m, tile_n, tile_k, stages, mainloop, consumers;
  int cluster_m, cluster_n, cluster_k, persistence, k_order, split_k, scaling, promote_every;
  int has_bias, activation, gated, output_scaling, groups, alignment_bytes;
  int raster, raster_group, swizzle_stride, splits, workers;
};

swr::HopperGemmConfig config_of(const Launch& l) {
  return {.dtype = static_cast<swr::DType>(l.dtype),
          .output = static_cast<swr::OutputType>(l.output),
          .layout = static_cast<swr::GemmLayout>(l.layout),
          .reads_c = l.reads_c != 0,
          .tile_m = l.tile_m,
          .tile_n = l.tile_n,
          .tile_k = l.tile_k,
          .stages = l.stages,
          .mainloop = static_cast<swr::GemmMainloop>(l.mainloop),
          .consumers = l.consumers,
          .cluster_m = l.cluster_m,
          .cluster_n = l.cluster_n,
          .cluster_k = l.cluster_k,
          .persistence = static_cast<swr::Persistence>(l.persistence),
          .k_order = static_cast<swr::Order>(l.k_order),
          .split_k = l.split_k != 0,
          .scaling = static_cast<swr::Scaling>(l.scaling),
          .promote_every = l.promote_every,
          .has_bias = l.has_bias != 0,
          .activation = static_cast<swr::Activation>(l.activation),
          .gated = l.gated != 0,
          .output_scaling = static_cast<swr::Scaling>(l.output_scaling),
          .groups = static_cast<swr::GemmGroups>(l.groups),
          .alignment_bytes = l.alignment_bytes};
}

const swr::LaunchCalls& calls() {
  static const swr::LaunchCalls found = swr::find_launch_calls([](const char* name) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult result;
    // The unversioned names, as cuGetProcAddress wants them.
    std::string plain = name;
    for (const char* version : {"_v2", "_v3"}) {
      if (plain.ends_with(version)) {
        plain.resize(plain.size() - 3);
      }
    }
    cuGetProcAddress(plain.c_str(), &address, CUDA_VERSION, 0, &result);
    return address;
  });
  return found;
}

}  // namespace

/// Bytes of shared memory of a CTA.
extern "C" int smem_bytes(const Launch* launch) { return config_of(*launch).smem_bytes(); }

/// Bytes of partial sums and copied rows.
extern "C" long long workspace_bytes(const Launch* launch, const swr::GemmParams* params) {
  return swr::workspace_bytes(config_of(*launch), *params);
}

/// A function, or null. Requires a current context.
extern "C" CUfunction load(const char* cubin, const Launch* launch) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (cuModuleLoad(&module, cubin) != CUDA_SUCCESS ||
      cuModuleGetFunction(&function, module, "swr_gemm") != CUDA_SUCCESS ||
      swr::prepare_gemm(calls(), function, config_of(*launch)) != CUDA_SUCCESS) {
    return nullptr;
  }
  return function;
}

extern "C" int launch(CUfunction function, const Launch* launch, const swr::GemmParams* given,
                      const swr::GemmExtras* extras, CUstream stream) {
  const swr::HopperGemmConfig config = config_of(*launch);
  swr::GemmParams params = *given;
  params.raster = static_cast<swr::Raster>(launch->raster);
  params.raster_group = launch->raster_group;
  params.swizzle_stride = launch->swizzle_stride;
  params.splits = launch->splits;
  swr::GemmTensorMaps maps;
  const CUresult encoded = swr::encode_gemm_maps(calls(), config, params, maps);
  return encoded != CUDA_SUCCESS
             ? encoded
             : swr::launch_gemm(calls(), function, config, params, *extras, maps, launch->workers,
                                swr::LaunchOverlap::allowed, stream);
}
