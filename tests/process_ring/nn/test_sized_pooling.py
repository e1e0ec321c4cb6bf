"""Max pooling whose sizes are fed, and the dense forms of CTC."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow.python.ops import ctc_ops, gen_nn_ops


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_sizes_that_are_fed(padding: str) -> None:
    x = np.random.default_rng(3).normal(size=(2, 5, 7, 3)).astype(np.float32)
    windows, strides = hf.placeholder(hf.int32), hf.placeholder(hf.int32)
    pooled = gen_nn_ops.max_pool_v2(x, windows, strides, padding)
    assert pooled.get_shape().as_list() == [2, None, None, None]
    with hf.Session() as session:
        for ksize, step in (([1, 2, 3, 1], [1, 2, 1, 1]), ([1, 3, 1, 1], [1, 1, 2, 1])):
            got, expected = session.run(
                [pooled, hf.nn.max_pool(x, ksize, step, padding)], {windows: ksize, strides: step})
            np.testing.assert_array_equal(got, expected)
        with pytest.raises(hf.errors.InvalidArgumentError, match="1 along the batch"):
            session.run(pooled, {windows: [2, 2, 2, 1], strides: [1, 1, 1, 1]})


def test_gradients_and_the_maxima_by_hand() -> None:
    x = np.arange(16.0).reshape(1, 4, 4, 1)
    pooled = gen_nn_ops.max_pool_v2(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    assert pooled.get_shape().as_list() == [1, 2, 2, 1]
    with hf.Session() as session:
        assert session.run(pooled).ravel().tolist() == [5, 7, 13, 15]
    values = np.random.default_rng(4).permutation(np.arange(24.0)).reshape(1, 3, 4, 2)
    check_gradient(lambda v: hf.square(gen_nn_ops.max_pool_v2(
        v, [1, 2, 2, 1], [1, 1, 2, 1], "SAME")), values / 8)
    with pytest.raises(ValueError, match="4 elements"):
        gen_nn_ops.max_pool_v2(x, [2, 2], [1, 2, 2, 1], "VALID")


def test_labels_of_rows_as_a_sparse_tensor() -> None:
    sparse = ctc_ops.dense_labels_to_sparse([[1, 3, 0, 0], [0, 4, 2, 0]], [2, 3])
    with hf.Session() as session:
        value = session.run(sparse)
    assert value.indices.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    assert value.values.tolist() == [1, 3, 0, 4, 2] and value.dense_shape.tolist() == [2, 3]


def test_the_loss_of_dense_labels() -> None:
    """Two steps and one label: the paths are (a a), (a blank) and (blank a)."""
    logits = np.log([[[0.4, 0.6]], [[0.3, 0.7]]]).astype(np.float32)
    loss = ctc_ops.ctc_loss_dense(labels=[[1]], logits=logits, label_length=[1], logit_length=[2],
                                  blank_index=0)
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(loss), [-np.log(1 - 0.4 * 0.3)], rtol=1e-5)
