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

__device__ inline int memcmp(const void* left, const void* right, size_t count)
{
    const unsigned char* l = (const unsigned char*)left;
    const unsigned char* r = (const unsigned char*)right;
    for (size_t i = 0; i < count; ++i) {
        if (l[i] != r[i]) return l[i] < r[i] ? -1 : 1;
    }
    return 0;
}

__device__ inline size_t strlen(const char* text)
{
    size_t length = 0;
    while (text[length]) ++length;
    return length;
}

#endif
