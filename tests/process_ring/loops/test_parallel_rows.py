"""Kernels that work in blocks of rows over several threads give what whole arrays give."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from pairs import pairs
from speed import patience
from thresholds import lower, use_pool

import hpcflow as hf
from hpcflow import config
from hpcflow.host import threads
from hpcflow.kernels.common import indices, parallel
from hpcflow.kernels.nn import channel_rows

RNG = np.random.default_rng(67)


@pytest.fixture(autouse=True)
def several_threads(monkeypatch):
    """Small blocks, shared from the first byte on, by three threads whatever the machine has."""
    lower(monkeypatch, "BLOCK_BYTES", "PARALLEL_LARGE_BYTES")
    monkeypatch.setattr(config.flags, "onednn", "0")
    pool = threads.Pool(3)
    use_pool(monkeypatch, pool)
    yield
    pool.close()


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def test_every_row_is_done_once_and_by_several_threads():
    counts, seen, second = np.zeros(1000, int), set(), threading.Event()

    def work(rows):
        seen.add(threading.get_ident())
        if len(seen) > 1:
            second.set()
        assert second.wait(patience())  # until another thread is here too
        counts[rows] += 1

    parallel.over_rows(1000, 512, work)
    assert (counts == 1).all() and len(seen) > 1


def test_no_rows_and_few_rows():
    seen = []
    parallel.over_rows(0, 100, seen.append)
    parallel.over_rows(3, 100, seen.append)
    assert seen == [slice(0, 0), slice(0, 3)]


def test_an_error_of_any_block_is_raised():
    def work(rows):
        if rows.start:
            raise ValueError(f"at {rows.start}")

    with pytest.raises(ValueError, match="at "):
        parallel.over_rows(100, 4096, work)
    parallel.over_rows(100, 4096, lambda rows: None)  # the threads go on


def run(build, *inputs):
    with hf.Graph().as_default(), hf.Session() as session:
        tensors = [hf.placeholder(hf.as_dtype(x.dtype), x.shape) for x in inputs]
        return session.run(build(*tensors), dict(zip(tensors, inputs)))


@pytest.mark.parametrize("columns", [7, 200, 3000])
def test_softmax_and_losses(columns):
    x, y = normal(300, columns) * 5, RNG.random((300, columns)).astype(np.float32)
    classes = RNG.integers(columns, size=300)
    wide = x.astype(np.float64)
    p = np.exp(wide - wide.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    found, logs = run(lambda v: [hf.nn.softmax(v), hf.nn.log_softmax(v)], x)
    np.testing.assert_allclose(found, p, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(logs, np.log(p), rtol=2e-5, atol=2e-5)
    loss = run(lambda a, b: hf.nn.softmax_cross_entropy_with_logits(labels=a, logits=b), y, x)
    np.testing.assert_allclose(loss, -(y * np.log(p)).sum(1), rtol=2e-5)
    loss = run(lambda a, b: hf.nn.sparse_softmax_cross_entropy_with_logits(labels=a, logits=b),
               classes, x)
    np.testing.assert_allclose(loss, -np.log(p[np.arange(300), classes]), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("radius", "beta"), [(0, 0.5), (2, 0.75), (5, 1.0), (40, 0.6)])
def test_local_response(radius, beta):
    x = normal(3, 9, 8, 17)
    wide, channel = x.astype(np.float64), np.arange(17)
    near = abs(channel[:, None] - channel) <= radius
    expected = wide / (1.5 + 0.1 * (wide**2) @ near) ** beta
    found = run(lambda v: hf.nn.lrn(v, radius, 1.5, 0.1, beta), x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_moments_of_a_large_mean():
    x = normal(5000, 6) + np.array([0, 1e3, -1e4, 3, 0, 7], np.float32)
    mean, variance = channel_rows.moments(x)
    np.testing.assert_allclose(mean, x.mean(0, dtype=np.float64), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(0, dtype=np.float64), rtol=1e-4)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_does_not_depend_on_the_layout(training):
    x, scale, offset = normal(6, 9, 10, 24), normal(24), normal(24)
    given = {} if training else {"mean": normal(24), "variance": normal(24) ** 2}

    def build(layout):
        def of(a, b, c):
            y, *_ = hf.nn.fused_batch_norm(a, b, c, **given, data_format=layout,
                                           is_training=training)
            return [y, *hf.gradients(y * y * y, [a, b, c])]

        return of

    last = run(build("NHWC"), x, scale, offset)
    first = run(build("NCHW"), np.moveaxis(x, -1, 1), scale, offset)
    first[:2] = [np.moveaxis(v, 1, -1) for v in first[:2]]
    for a, b in zip(last, first, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


@pairs(
    ("width", [1, 3, 40]),
    ("numbers", [5000, 50, 1]),
    ("name", ["add", "subtract", "multiply", "maximum"]),
)
def test_rows_with_repetitions_are_combined_in_order(name, numbers, width):
    ufunc, rows = getattr(np, name), RNG.integers(numbers, size=700)
    target, updates = normal(numbers, width), normal(700, width)
    expected = target.copy()
    ufunc.at(expected, rows, updates)
    indices.combine_rows(ufunc, target, rows, updates)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("turned", [False, True])
def test_elements_in_blocks(turned):
    x, y = normal(70, 80), normal(80, 70).T if turned else normal(70, 80)
    found = parallel.in_blocks(lambda a, b, out=None: np.multiply(a, b, out=out))(x, y)
    np.testing.assert_array_equal(found, x * y)
    out = np.empty_like(x)
    assert parallel.in_blocks(lambda a, b, out=None: np.add(a, b, out=out))(x, y, out=out) is out
    np.testing.assert_array_equal(out, x + y)


def test_gathered_rows():
    table, rows = normal(900, 50), RNG.integers(900, size=(70, 90)).astype(np.int32)
    found = run(lambda t, r: hf.gather(t, r), table, rows)
    np.testing.assert_array_equal(found, table[rows])
    for bad in (900, -1):
        rows[3, 4] = bad
        with pytest.raises(hf.errors.InvalidArgumentError, match=rf"\[3,4\] = {bad} is not in"):
            run(lambda t, r: hf.gather(t, r), table, rows)
