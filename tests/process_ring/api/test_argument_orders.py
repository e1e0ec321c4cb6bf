"""Arguments by place are those of 1.15 where 1.0 had none: what its functions tell, as facts."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import hpcflow as hf

ORDERS = {
    "lookup.StaticHashTable": "initializer default_value name",
    "nest.flatten": "structure expand_composites",
    "sparse.eye": "num_rows num_columns dtype name",
    "sparse.expand_dims": "sp_input axis name",
    "train.SessionManager": "local_init_op ready_op ready_for_local_init_op graph "
                            "recovery_wait_secs local_init_run_options local_init_feed_dict",
    "compat.v2.gather": "params indices validate_indices axis batch_dims name",
    "compat.v2.nn.convolution": "input filters strides padding data_format dilations name",
    "compat.v2.reduce_sum": "input_tensor axis keepdims name",
    "compat.v2.scan": "fn elems initializer parallel_iterations back_prop swap_memory infer_shape "
                      "reverse name",
}


@pytest.mark.parametrize("path", ORDERS)
def test_the_order_of_arguments(path):
    found = functools.reduce(getattr, path.split("."), hf)
    assert list(inspect.signature(found).parameters) == ORDERS[path].split()


def test_functions_are_described_without_types():
    spec = hf.python.util.tf_inspect.getfullargspec(hf.cast)
    assert spec.args == ["x", "dtype", "name"] and not spec.annotations


def test_sparse_tensors_with_another_dimension(session):
    sparse = hf.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
    dense = hf.sparse.to_dense(sparse)
    for axis in (None, 0, 1, 2, -3):
        made = hf.sparse.to_dense(hf.sparse.expand_dims(sparse, axis))
        got, expected = session.run([made, dense])
        np.testing.assert_array_equal(got, np.expand_dims(expected, -1 if axis is None else axis))
    with pytest.raises(ValueError, match="not in range"):
        hf.sparse.expand_dims(sparse, 3)
    eye = session.run(hf.sparse.to_dense(hf.sparse.eye(2, 3, hf.int32)))
    np.testing.assert_array_equal(eye, np.eye(2, 3, dtype=np.int32), strict=True)
