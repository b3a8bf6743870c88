#pragma once

// The sum of a warp's values, in its first lane.
template <typename T>
__device__ T warp_sum(T value)
{
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}
