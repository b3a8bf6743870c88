#ifndef CUDA_BUILD_SHIM_STDDEF_H
#define CUDA_BUILD_SHIM_STDDEF_H

#ifdef _WIN64
typedef unsigned long long size_t;
typedef long long ptrdiff_t;
#else
typedef unsigned long size_t;
typedef long ptrdiff_t;
#endif
#define NULL 0
#define offsetof(type, member) ((size_t)((char*)&(((type*)0)->member) - (char*)0))
#if __cplusplus >= 201103L
typedef decltype(nullptr) nullptr_t;
typedef union { long long integer; long double floating; void* pointer; } max_align_t;
namespace std {
using ::nullptr_t;
using ::max_align_t;
}
#endif

#endif
