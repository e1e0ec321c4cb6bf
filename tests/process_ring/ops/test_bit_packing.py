"""CompareAndBitpack against NumPy's bits, and gathers of coordinates in each place of a batch."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.ops import array_ops, math_ops


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(24,), (3, 5, 16), (0, 8), (2, 0)])
def test_bits_of_a_comparison(dtype: type, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(7).integers(-3, 4, shape).astype(dtype)
    packed = math_ops.compare_and_bitpack(x, dtype(0))
    expected = np.packbits(x > dtype(0), axis=-1)
    assert packed.dtype == hf.uint8 and packed.get_shape().as_list() == list(expected.shape)
    with hf.Session() as session:
        np.testing.assert_array_equal(session.run(packed), expected)


def test_bits_that_do_not_fill_bytes() -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        math_ops.compare_and_bitpack(hf.zeros([2, 7]), 0.0)
    x = hf.placeholder(hf.float32)
    packed = math_ops.compare_and_bitpack(x, 0.0)
    with (hf.Session() as session,
          pytest.raises(hf.errors.InvalidArgumentError, match="multiple of 8")):
        session.run(packed, {x: np.zeros((2, 7))})


def test_gathers_in_each_place_of_a_batch() -> None:
    params = np.arange(24).reshape(2, 3, 4)
    gathered = array_ops.batch_gather_nd(params, [[2, 1], [0, 3]], 1)
    with hf.Session() as session:
        assert session.run(gathered).tolist() == [params[0, 2, 1], params[1, 0, 3]]
    with pytest.raises(ValueError, match="batch_dims"):
        array_ops.batch_gather_nd(params, [[2, 1], [0, 3]], batch_dims=2)
