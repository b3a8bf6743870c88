try:
    from ._native import *
except ImportError:
    # The native module looks for CUDA's libraries in this environment's site-packages. cuda-pathfinder, if it is
    # installed, also finds them elsewhere: in conda, in another site-packages, or in an installed toolkit.
    from cuda.pathfinder import load_nvidia_dynamic_lib

    load_nvidia_dynamic_lib("cudart")
    from ._native import *
