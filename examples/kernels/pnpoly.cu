// SPDX-License-Identifier: MIT
// Whether points lie within a polygon: each counts the edges that a ray from it crosses. Vertices
// lie in constant memory.
#define vertices 600
__constant__ float2 d_vertices[vertices];

/// y lies between the ends of an edge, one of which counts.
__device__ bool is_between(float a, float b, float y) {
  if constexpr (between_method == 0) {
    return (a > y) != (b > y);
  } else if constexpr (between_method == 1) {
    return (b <= y && y < a) || (a <= y && y < b);
  } else if constexpr (between_method == 2) {
    return ((y - a) >= 0.0f) != ((y - b) >= 0.0f);
  } else {
    const bool above = a > y;
    return above ^ (b > y);
  }
}

__global__ void pnpoly(int* bitmap, const float2* points, int n) {
  const int first = blockIdx.x * block_size_x * tile_size + threadIdx.x;
  float2 point[tile_size];
  int inside[tile_size];
#pragma unroll
  for (int k = 0; k < tile_size; ++k) {
    inside[k] = 0;
    const int i = first + k * block_size_x;
    point[k] = i < n ? points[i] : make_float2(0.0f, 0.0f);
  }
  float2 last = d_vertices[vertices - 1];
  for (int v = 0; v < vertices; ++v) {
    const float2 next = d_vertices[v];
    const float slope = (last.x - next.x) / (last.y - next.y);
#pragma unroll
    for (int k = 0; k < tile_size; ++k) {
      const bool crosses = is_between(next.y, last.y, point[k].y) &&
                           point[k].x < slope * (point[k].y - next.y) + next.x;
      if constexpr (use_method == 0) {
        if (crosses) {
          inside[k] = !inside[k];
        }
      } else if constexpr (use_method == 1) {
        inside[k] ^= crosses ? 1 : 0;
      } else {
        inside[k] += crosses ? 1 : 0;
      }
    }
    last = next;
  }
#pragma unroll
  for (int k = 0; k < tile_size; ++k) {
    const int i = first + k * block_size_x;
    if (i < n) {
      bitmap[i] = inside[k] & 1;
    }
  }
}

__global__ void pnpoly_naive(int* bitmap, const float2* points, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  int crossings = 0;
  for (int v = 0; v < vertices; ++v) {
    const float2 next = d_vertices[v];
    const float2 last = d_vertices[v == 0 ? vertices - 1 : v - 1];
    const float slope = (last.x - next.x) / (last.y - next.y);
    if ((next.y > points[i].y) != (last.y > points[i].y) &&
        points[i].x < slope * (points[i].y - next.y) + next.x) {
      ++crossings;
    }
  }
  bitmap[i] = crossings & 1;
}
