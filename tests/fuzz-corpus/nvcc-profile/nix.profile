
TOP              = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = /nix/store/nvcc/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += /nix/store/nvcc/nvvm/bin:$(_HERE_):
INCLUDES        +=  "-I/nix/store/nvcc/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/$(_TARGET_DIR_)/lib/stubs" "-L$(TOP)/$(_TARGET_DIR_)/lib"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=

LIBRARIES =+ $(_SPACE_) "-L/nix/store/nvcc/nvvm/lib"
INCLUDES =+ $(_SPACE_) "-I/nix/store/nvcc/nvvm/include"
