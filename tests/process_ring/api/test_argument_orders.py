"""Arguments by place are those of 1.15: what its functions tell of themselves, as facts."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import hpcflow as hf

ORDERS = {
    "TensorArray": "dtype size dynamic_size clear_after_read tensor_array_name handle flow "
                   "infer_shape element_shape colocate_with_first_write_call name",
    "arg_max": "input dimension output_type name",
    "case": "pred_fn_pairs default exclusive strict name",
    "fake_quant_with_min_max_args": "inputs min max num_bits narrow_range name",
    "fake_quant_with_min_max_vars": "inputs min max num_bits narrow_range name",
    "image.decode_image": "contents channels dtype name expand_animations",
    "image.non_max_suppression": "boxes scores max_output_size iou_threshold score_threshold name",
    "lookup.StaticHashTable": "initializer default_value name",
    "nest.flatten": "structure expand_composites",
    "nn.ctc_loss": "labels inputs sequence_length preprocess_collapse_repeated ctc_merge_repeated "
                   "ignore_longer_outputs_than_inputs time_major logits",
    "nn.depthwise_conv2d_native": "input filter strides padding data_format dilations name",
    "nn.max_pool_with_argmax": "input ksize strides padding data_format Targmax name output_dtype "
                               "include_batch_in_index",
    "scan": "fn elems initializer parallel_iterations back_prop swap_memory infer_shape reverse "
            "name",
    "sparse.eye": "num_rows num_columns dtype name",
    "sparse.expand_dims": "sp_input axis name",
    "string_split": "source sep skip_empty delimiter result_type name",
    "train.LoggingTensorHook": "tensors every_n_iter every_n_secs at_end formatter",
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


def test_the_name_of_a_conditional_may_stand_where_it_once_did():
    one, two = (lambda: [hf.constant(1)]), (lambda: [hf.constant(2)])
    assert hf.cond(hf.constant(True), one, two, "old").name == "old/Merge:0"
    assert hf.cond(hf.constant(True), one, two, True, "new")[0].name == "new/Merge:0"


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
