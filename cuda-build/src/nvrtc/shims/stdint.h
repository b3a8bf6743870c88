// The types are those that CCCL defines under NVRTC, so that both can be included.
#include <limits.h>
#include <stddef.h>

typedef signed long long intptr_t;
typedef unsigned long long uintptr_t;
typedef signed long long intmax_t;
typedef unsigned long long uintmax_t;

#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define INTMAX_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define PTRDIFF_MIN INT64_MIN
#define PTRDIFF_MAX INT64_MAX
#define SIZE_MAX UINT64_MAX
#define INTMAX_C(X) ((intmax_t) (X))
#define UINTMAX_C(X) ((uintmax_t) (X))
