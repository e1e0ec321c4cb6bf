"""The v2 interface for graphs: orders and names of arguments, and what is not in it."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.api.compat.v2_signatures import MORE, OTHERS, SIGNATURES

v2 = importlib.import_module("hpcflow.compat.v2")
M = np.random.RandomState(0).randn(4, 5).astype(np.float32)
TABLE = np.arange(8.0).reshape(8, 1)
EXPONENTS = np.exp(M)


def at(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module


@pytest.mark.parametrize("path", SIGNATURES)
def test_the_old_function_takes_all_arguments(path):
    old = at(hf, OTHERS.get(path, path))
    taken = inspect.signature(old).parameters
    aliases = {"keepdims": "keep_dims", "axis": "dim"}  # what decorators take besides
    for part in (*SIGNATURES[path].split(), *MORE.get(path, ())):
        name = part.partition("=")[2] or part
        assert name in taken or aliases[name] in taken
    assert callable(at(v2, path))


@pytest.mark.parametrize("make, expected", [
    (lambda: v2.argmax(M, 1, hf.int32), M.argmax(1).astype(np.int32)),
    (lambda: v2.math.reduce_sum(M, axis=0, keepdims=True), M.sum(0, keepdims=True)),
    (lambda: v2.reduce_logsumexp(M, 1, True), np.log(EXPONENTS.sum(1, keepdims=True))),
    (lambda: v2.nn.softmax(M, 0), EXPONENTS / EXPONENTS.sum(0)),
    (lambda: v2.nn.dropout(M, 0.0), M),
    (lambda: v2.nn.conv2d(input=M[None, :, :, None], filters=np.ones([1, 1, 1, 1], np.float32),
                          strides=[1, 2, 1, 1], padding="VALID")[0, :, :, 0], M[::2]),
    (lambda: v2.nn.moments(M, [0], None, True)[0], M.mean(0, keepdims=True)),
    (lambda: v2.nn.embedding_lookup([TABLE[:4], TABLE[4:]], [1, 5, 7]), TABLE[[1, 5, 7]]),
    (lambda: v2.where(M > 0, M, 0.0), np.maximum(M, 0)),
    (lambda: v2.boolean_mask(M, [True, False, True, True, False], 1), M[:, [0, 2, 3]]),
    (lambda: v2.pad(M, [[1, 0], [0, 0]], "CONSTANT", 2.0), np.pad(M, [[1, 0], [0, 0]],
                                                                  constant_values=2)),
    (lambda: v2.shape(M, hf.int64), np.array([4, 5])),
    (lambda: v2.math.in_top_k([0, 4], M[:2], 5), np.array([True, True])),
    (lambda: v2.losses.mean_squared_error(M, 2 * M), (M ** 2).mean(1)),
    (lambda: v2.initializers.Constant(2.0)([3]), np.full(3, 2, np.float32)),
])
def test_values(make, expected):
    with hf.Graph().as_default(), hf.Session() as session:
        found = session.run(make())
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_is_not_in_it():
    for path in ("placeholder", "Session", "layers", "image.resize", "summary.scalar"):
        with pytest.raises(AttributeError, match=f"use `hf.{path}`"):
            at(v2, path)
    with pytest.raises(AttributeError, match="does without"):
        _ = v2.GradientTape
    assert hf.compat.v2 is v2 and v2.float32 is hf.float32 and v2.newaxis is None
    with pytest.raises(TypeError, match="unexpected keyword argument 'keep_prob'"):
        v2.nn.dropout(M, keep_prob=0.5)
    with pytest.raises(TypeError, match="at most 4 arguments"):
        v2.argmax(M, 1, hf.int32, "a", "b")
    with pytest.raises(TypeError, match="multiple values"):
        v2.argmax(M, 1, axis=1)
