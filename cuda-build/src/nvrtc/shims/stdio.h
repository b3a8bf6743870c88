// NVRTC has no system headers: this stands in for <stdio.h>.
#ifndef CUDA_BUILD_SHIM_STDIO_H
#define CUDA_BUILD_SHIM_STDIO_H

#include <stddef.h>

// `printf` is built in.

#endif
