#!/bin/sh
# as Debian has it
exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"
