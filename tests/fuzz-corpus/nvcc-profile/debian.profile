
NVVMIR_LIBRARY_DIR = /usr/lib/nvidia-cuda-toolkit/libdevice
PATH	+= $(_HERE_):$(_HERE_):
LIBRARIES	=+ $(_SPACE_) -L/usr/lib/x86_64-linux-gnu/stubs -L/usr/lib/x86_64-linux-gnu
