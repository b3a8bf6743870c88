try:
    from ._native import *
except ImportError as error:
    # The native module looks for CUDA's libraries in this environment's site-packages. cuda-pathfinder, if it is
    # installed, also finds them elsewhere: in conda, in another site-packages, or in an installed toolkit.
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
    except ImportError:
        raise error from None

    load_nvidia_dynamic_lib("cudart")
    from ._native import *
