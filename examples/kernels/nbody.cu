// SPDX-License-Identifier: MIT
// One step of n bodies that attract each other, bodies as float4 or as arrays of coordinates,
// through shared memory or not.
__device__ float3 position_of(const float4* bodies, const float* x, const float* y, const float* z,
                              int i) {
  if constexpr (USE_SOA == 1) {
    return make_float3(x[i], y[i], z[i]);
  } else {
    const float4 body = bodies[i];
    return make_float3(body.x, body.y, body.z);
  }
}

__device__ void attract(float3& acceleration, float3 at, float4 other, float softening) {
  const float3 d = make_float3(other.x - at.x, other.y - at.y, other.z - at.z);
  const float inverse = rsqrtf(d.x * d.x + d.y * d.y + d.z * d.z + softening);
  const float factor = other.w * inverse * inverse * inverse;
  acceleration.x += d.x * factor;
  acceleration.y += d.y * factor;
  acceleration.z += d.z * factor;
}

__global__ void __launch_bounds__(BLOCK_SIZE)
    nbody_kernel(float time_delta, const float4* bodies, const float* x, const float* y,
                 const float* z, const float* mass, float4* new_bodies, const float4* velocities,
                 float4* new_velocities, float damping, float softening, int n) {
  const int first = (blockIdx.x * BLOCK_SIZE + threadIdx.x) * OUTER_UNROLL_FACTOR;
  float3 at[OUTER_UNROLL_FACTOR];
  float3 acceleration[OUTER_UNROLL_FACTOR] = {};
#if INNER_UNROLL_FACTOR2 > 0
#pragma unroll INNER_UNROLL_FACTOR2
#endif
  for (int j = 0; j < OUTER_UNROLL_FACTOR; ++j) {
    at[j] = position_of(bodies, x, y, z, first + j);
  }
#if LOCAL_MEM == 1
  __shared__ float4 others[BLOCK_SIZE];
  for (int from = 0; from < n; from += BLOCK_SIZE) {
    const int i = from + threadIdx.x;
    const float3 other = position_of(bodies, x, y, z, i);
    others[threadIdx.x] =
        make_float4(other.x, other.y, other.z, USE_SOA == 1 ? mass[i] : bodies[i].w);
    __syncthreads();
#if INNER_UNROLL_FACTOR1 > 0
#pragma unroll INNER_UNROLL_FACTOR1
#endif
    for (int k = 0; k < BLOCK_SIZE; ++k) {
      for (int j = 0; j < OUTER_UNROLL_FACTOR; ++j) {
        attract(acceleration[j], at[j], others[k], softening);
      }
    }
    __syncthreads();
  }
#else
#if INNER_UNROLL_FACTOR1 > 0
#pragma unroll INNER_UNROLL_FACTOR1
#endif
  for (int i = 0; i < n; ++i) {
    const float3 other = position_of(bodies, x, y, z, i);
    const float4 body =
        make_float4(other.x, other.y, other.z, USE_SOA == 1 ? mass[i] : bodies[i].w);
    for (int j = 0; j < OUTER_UNROLL_FACTOR; ++j) {
      attract(acceleration[j], at[j], body, softening);
    }
  }
#endif
#if INNER_UNROLL_FACTOR2 > 0
#pragma unroll INNER_UNROLL_FACTOR2
#endif
  for (int j = 0; j < OUTER_UNROLL_FACTOR; ++j) {
    const int i = first + j;
    float4 velocity = velocities[i];
    velocity.x = (velocity.x + acceleration[j].x * time_delta) * damping;
    velocity.y = (velocity.y + acceleration[j].y * time_delta) * damping;
    velocity.z = (velocity.z + acceleration[j].z * time_delta) * damping;
    new_velocities[i] = velocity;
    new_bodies[i] =
        make_float4(at[j].x + velocity.x * time_delta, at[j].y + velocity.y * time_delta,
                    at[j].z + velocity.z * time_delta, USE_SOA == 1 ? mass[i] : bodies[i].w);
  }
}
