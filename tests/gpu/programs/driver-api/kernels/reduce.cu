#include <stdint.h>

#include "reduce.cuh"

// Adds the squares of n values to *sum: through shuffles, shared memory and one atomic addition
// of doubles for each block, which want 6.0 at least.
extern "C" __global__ void sum_of_squares(uint32_t n, const float *values, double *sum)
{
    __shared__ double warps[32];
    double mine = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine += double(values[i]) * values[i];
    mine = warp_sum(mine);
    if (threadIdx.x % warpSize == 0) warps[threadIdx.x / warpSize] = mine;
    __syncthreads();
    if (threadIdx.x < warpSize) {
        mine = warp_sum(threadIdx.x < blockDim.x / warpSize ? warps[threadIdx.x] : 0.0);
        if (threadIdx.x == 0) atomicAdd(sum, mine);
    }
}
