// SPDX-License-Identifier: MIT
// C = A^T B in the parameters of CLTune's GEMM: a block of MDIMC by NDIMC threads computes MWG by
// NWG elements, KWG of k at a time through shared memory.
#define MWI (MWG / MDIMC)
#define NWI (NWG / NDIMC)

__global__ void gemm_fast(int m, int n, int k, const float* a, const float* b, float* c) {
  __shared__ float a_tile[KWG][MWG];
  __shared__ float b_tile[KWG][NWG];
  const int thread = threadIdx.y * MDIMC + threadIdx.x;
  const int first_m = blockIdx.x * MWG;
  const int first_n = blockIdx.y * NWG;
  float sum[NWI][MWI] = {};
  for (int from = 0; from < k; from += KWG) {
    // Loads in the shape of MDIMA, and of NDIMB, by what is left of the threads.
    constexpr int a_rows = MDIMC * NDIMC / MDIMA;
    constexpr int b_rows = MDIMC * NDIMC / NDIMB;
    for (int row = thread / MDIMA; row < KWG; row += a_rows) {
      for (int i = thread % MDIMA; i < MWG; i += MDIMA) {
        a_tile[row][i] = a[(from + row) * m + first_m + i];
      }
    }
    for (int row = thread / NDIMB; row < KWG; row += b_rows) {
      for (int j = thread % NDIMB; j < NWG; j += NDIMB) {
        b_tile[row][j] = b[(from + row) * n + first_n + j];
      }
    }
    __syncthreads();
    for (int part = 0; part < KWG; part += KWI) {
#pragma unroll
      for (int inner = 0; inner < KWI; ++inner) {
        const int kk = part + inner;
#pragma unroll
        for (int j = 0; j < NWI; ++j) {
          const float right =
              b_tile[kk][STRN == 0 ? threadIdx.y * NWI + j : threadIdx.y + j * NDIMC];
#pragma unroll
          for (int i = 0; i < MWI; ++i) {
            const float left =
                a_tile[kk][STRM == 0 ? threadIdx.x * MWI + i : threadIdx.x + i * MDIMC];
            sum[j][i] += left * right;
          }
        }
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < NWI; ++j) {
    const int column = first_n + (STRN == 0 ? threadIdx.y * NWI + j : threadIdx.y + j * NDIMC);
    for (int i = 0; i < MWI; ++i) {
      const int row = first_m + (STRM == 0 ? threadIdx.x * MWI + i : threadIdx.x + i * MDIMC);
      c[column * m + row] = sum[j][i];
    }
  }
}
