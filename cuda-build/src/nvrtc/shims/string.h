#ifndef CUDA_BUILD_SHIM_STRING_H
#define CUDA_BUILD_SHIM_STRING_H

#include <stddef.h>

// `memcpy` and `memset` are built in.

__device__ inline void* memmove(void* to, const void* from, size_t count)
{
    unsigned char* t = (unsigned char*)to;
    const unsigned char* f = (const unsigned char*)from;
    if (t < f) {
        for (size_t i = 0; i < count; ++i) t[i] = f[i];
    } else {
        for (size_t i = count; i > 0; --i) t[i - 1] = f[i - 1];
    }
    return to;
}

#endif
