// NVRTC has no system headers: this stands in for <stdbool.h>.
#ifndef CUDA_BUILD_SHIM_STDBOOL_H
#define CUDA_BUILD_SHIM_STDBOOL_H

// `bool`, `true` and `false` are C++.

#endif
