import pytest

import saxpy


def test_cuda_runtime_is_loaded():
    assert saxpy.cuda_runtime_version() >= 12000


def test_axpy():
    try:
        result = saxpy.axpy(2.0, [1.0, 2.0], [3.0, 4.0])
    except RuntimeError as error:
        if "no CUDA driver is installed" not in str(error):
            raise
        pytest.skip(str(error))
    assert result == [5.0, 8.0]


def test_lengths_differ():
    with pytest.raises(ValueError, match="x has 1 elements, y has 0"):
        saxpy.axpy(2.0, [1.0], [])
