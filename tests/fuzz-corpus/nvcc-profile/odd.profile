  # indented
TOP=$(_THERE_)/..
OWN ?= $(TOP)/own
OWN ?= never
INCLUDES=+"-I$(OWN)" -isystem
SYSTEM_INCLUDES = $(UNSET)"-isystem" $(OWN)/system $(_CUDART_)
LIBRARIES += -L$(OWN)/$x/lib$(_TARGET_SIZE_)
LIBRARIES =+ $(_SPACE_)-Lrelative # no comment
PATH =+ :$(OWN)