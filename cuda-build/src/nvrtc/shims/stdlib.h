// NVRTC has no system headers: this stands in for <stdlib.h>.
#ifndef CUDA_BUILD_SHIM_STDLIB_H
#define CUDA_BUILD_SHIM_STDLIB_H

#include <stddef.h>

// `malloc`, `free`, `abs` and `labs` are built in.

#endif
