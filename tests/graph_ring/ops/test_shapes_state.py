"""Shape functions of state, training and random ops where shapes are known in part."""

from __future__ import annotations

import pytest

import hpcflow as hf

ops = hf.raw_ops


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def ref(dims, dtype=hf.float32):
    return ops.VariableV2(shape=hf.TensorShape(dims), dtype=dtype)


def value(dims, dtype=hf.float32):
    return hf.placeholder(dtype, dims)


def dims(tensor):
    return None if tensor.shape.ndims is None else tensor.shape.as_list()


@pytest.mark.parametrize("variable, assigned, validated, free", [
    ([2, 3], [2, 3], [2, 3], [2, 3]), ([2, 3], None, [2, 3], None), (None, [4], [4], [4]),
    ([2, 3], [None, 3], [2, 3], [None, 3]),
])
def test_assign(variable, assigned, validated, free):
    assert dims(hf.assign(ref(variable), value(assigned))) == validated
    assert dims(hf.assign(ref(variable), value(assigned), validate_shape=False)) == free
    assert dims(hf.assign_add(ref(variable), value(assigned))) == validated


def test_assign_mismatch():
    with pytest.raises(ValueError, match=r"\[2,3\].*\[3,2\]"):
        hf.assign(ref([2, 3]), value([3, 2]))
    assert dims(hf.assign(ref([2, 3]), value([3, 2]), validate_shape=False)) == [3, 2]


@pytest.mark.parametrize("variable, indices, updates", [
    ([5, 3], [2], [2, 3]), ([5, 3], [2, 4], [2, 4, 3]), ([5, 3], [], [3]), ([5, 3], None, None),
    (None, [2], [2, 3]), ([5, None], [2], [2, 7]), ([5, 3], [None], [4, 3]), ([5, 3], [2], []),
])
def test_scatter(variable, indices, updates):
    out = hf.scatter_add(ref(variable), value(indices, hf.int32), value(updates))
    assert dims(out) == variable


@pytest.mark.parametrize("variable, indices, updates", [
    ([5, 3], [2], [3, 3]), ([5, 3], [2], [2]), ([5, 3], [2, 4], [2, 3]), ([], [2], [2]),
])
def test_scatter_mismatch(variable, indices, updates):
    with pytest.raises(ValueError, match="ref"):
        hf.scatter_add(ref(variable), value(indices, hf.int32), value(updates))


def test_scatter_nd():
    for indices, updates in (([4, 1], [4, 3]), ([4, 2], [4]), ([2, 4, 1], [2, 4, 3]),
                             ([4, None], [9, 9]), (None, None)):
        out = hf.scatter_nd_add(ref([5, 3]), value(indices, hf.int32), value(updates))
        assert dims(out) == [5, 3]
    for indices, updates in (([4, 1], [4, 2]), ([4, 3], [4]), ([4, 2], [3])):
        with pytest.raises(ValueError, match=r"do not fit|updates\.shape"):
            hf.scatter_nd_add(ref([5, 3]), value(indices, hf.int32), value(updates))


def test_counting_and_asking():
    assert dims(hf.count_up_to(ref([], hf.int32), 3)) == []
    assert dims(ops.IsVariableInitialized(ref(None))) == []
    assert dims(ops.RefIdentity(ref([2]))) == [2]


def test_updates_combine_what_is_known():
    out = ops.ApplyAdagrad(ref([None, 3]), ref([2, None]), value([]), value(None))
    assert dims(out) == [2, 3]
    out = ops.SparseApplyAdagrad(ref([5, None]), ref([None, 3]), value(None), value([2, 3]),
                                 value([None], hf.int64))
    assert dims(out) == [5, 3]
    with pytest.raises(ValueError, match="must be rank 1"):
        ops.SparseApplyAdagrad(ref([5]), ref([5]), value([]), value([2]), value([2, 1], hf.int32))


def test_handles():
    handle = ops.VarHandleOp(dtype=hf.float32, shape=[2, 3])
    assert dims(handle) == [] and handle.dtype is hf.resource
    assert dims(ops.ReadVariableOp(handle, dtype=hf.float32)) == [2, 3]
    assert dims(ops.VariableShape(handle)) == [2]
    assert dims(ops.ResourceGather(handle, value([4], hf.int32), dtype=hf.float32)) == [4, 3]
    with pytest.raises(ValueError, match="float32"):
        ops.ReadVariableOp(handle, dtype=hf.int32)
    with pytest.raises(ValueError, match=r"\[2,3\].*\[3\]"):
        ops.ResourceApplyGradientDescent(handle, 0.1, value([3]))


def test_random():
    assert dims(hf.random_uniform([2, 3])) == [2, 3]
    assert dims(hf.random_uniform(value([2], hf.int32))) == [None, None]
    assert dims(hf.random_uniform(value(None, hf.int32))) is None
    assert dims(hf.random_gamma([2], value([3, 1]), value([4]))) == [2, 3, 4]
    assert dims(hf.multinomial(value([None, 5]), 3)) == [None, 3]
    assert dims(hf.multinomial(value([2, 5]), value([], hf.int32))) == [2, None]
    assert dims(hf.random_shuffle(value([None, 2]))) == [None, 2]
    assert dims(hf.random_crop(value([None, None, 3]), [4, 5, 3])) == [4, 5, 3]
    partly = hf.stack([value([], hf.int32), 3])
    assert dims(hf.random_normal(partly)) == [None, 3]
    with pytest.raises(ValueError, match="rank 1"):
        ops.RandomUniform(value([2, 2], hf.int32), dtype=hf.float32)
    with pytest.raises(ValueError, match="logits"):
        hf.multinomial(value([3]), 2)
