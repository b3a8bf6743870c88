#pragma once

__device__ inline unsigned global_index()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}
