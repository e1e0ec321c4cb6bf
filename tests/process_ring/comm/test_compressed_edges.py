"""Edges between tasks that carry the upper halves of float32 values."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow import config

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0 / 3, np.pi, 1e-40, 3.4e38, -3.4e38, np.inf, -np.inf],
                   np.float32)


@pytest.fixture
def target():
    """A cluster of one server and two workers in this process; the target of a worker."""
    spec = hf.train.ClusterSpec({"ps": ["c:1"], "worker": ["c:2", "c:3"]})
    servers = [hf.train.Server(spec, job, i) for job, i in
               [("ps", 0), ("worker", 0), ("worker", 1)]]
    with hf.Graph().as_default():
        yield servers[1].target
    for server in servers:
        server._server.close()


def truncated(value):
    """`value` with the lower 16 bits of every element zero."""
    return (np.asarray(value, np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def same_bits(a, b):
    np.testing.assert_array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))


def compressing():
    proto = hf.ConfigProto()
    proto.graph_options.enable_bfloat16_sendrecv = True
    return proto


def there(x, task="/job:ps/task:0"):
    """`x` as another task sees it: its bits as integers, which are never compressed."""
    with hf.device(task):
        return hf.bitcast(hf.identity(x), hf.int32)


def sample(size):
    values = np.random.RandomState(3).standard_normal(size).astype(np.float32)
    values[: len(SPECIAL)] = SPECIAL
    return values


@pairs(
    ("compiled", ["0", "1"]),
    ("size", [10, 5000, 100_000]),
    ("shape", [[None], "static", None]),
)
def test_values_lose_their_lower_halves_once(target, size, shape, compiled):
    x = hf.placeholder(hf.float32, [size] if shape == "static" else shape)
    bits = there(x)
    config.flags.reload({"HPCFLOW_COMPILE": compiled})
    try:
        with hf.Session(target, config=compressing()) as session:
            for factor in (1.0, -2.0):  # the buffers are used again
                with np.errstate(over="ignore"):
                    values = sample(size) * np.float32(factor)
                got = session.run(bits, {x: values})
                same_bits(got.view(np.float32), truncated(values))
        with hf.Session(target) as session:
            same_bits(session.run(bits, {x: values}).view(np.float32), values)
    finally:
        config.flags.reload()


@pytest.mark.parametrize("shape", [[], None])
def test_scalars(target, shape):
    x = hf.placeholder(hf.float32, shape)
    with hf.Session(target, config=compressing()) as session:
        for value in SPECIAL:
            same_bits(session.run(there(x), {x: value}).view(np.float32), truncated(value))


def test_not_a_number_stays_one_where_the_upper_half_says_so(target):
    x = hf.placeholder(hf.float32, [2])
    values = np.array([0x7FC00001, 0xFFC12345], np.uint32).view(np.float32)
    with hf.Session(target, config=compressing()) as session:
        got = session.run(there(x), {x: values})
    assert [hex(v) for v in got.view(np.uint32)] == ["0x7fc00000", "0xffc10000"]


@pytest.mark.parametrize("dtype", [hf.float64, hf.int32, hf.complex64, hf.float16])
def test_other_dtypes_are_left_alone(target, dtype):
    x = hf.placeholder(dtype, [3])
    values = (np.array([1, 2, 3]) * np.pi).astype(dtype.as_numpy_dtype)
    with hf.device("/job:ps/task:0"):
        y = x + x
    with hf.Session(target, config=compressing()) as session:
        np.testing.assert_array_equal(session.run(y, {x: values}), values + values)


def test_device_pairs(target):
    """The last rule that fits decides; other pairs carry all bits."""
    value = np.float32(np.pi)
    x = hf.placeholder(hf.float32, [])
    to_ps, to_worker = there(x), there(x, "/job:worker/task:1")
    with hf.Session(target) as session:
        def bits(y):
            return session.run(y, {x: value}).view(np.float32)

        same_bits(bits(to_ps), value)
        hf.mpi.compress("bfloat16", "/job:worker", "/job:ps")
        same_bits(bits(to_ps), truncated(value))
        same_bits(bits(to_worker), value)
        hf.mpi.compress("bfloat16")
        hf.mpi.compress(None, destination="/job:ps/task:0")
        same_bits(bits(to_ps), value)
        same_bits(bits(to_worker), truncated(value))
    with hf.Graph().as_default(), hf.Session("") as session:  # within a task nothing is sent
        x = hf.placeholder(hf.float32, [])
        y = hf.identity(x)
        same_bits(session.run(y, {x: value}), value)


def test_wrong_requests():
    with pytest.raises(hf.errors.InvalidArgumentError, match="expected 'bfloat16'"):
        hf.mpi.compress("float16")
    with pytest.raises(ValueError):
        hf.mpi.compress("bfloat16", "/nonsense:1")


def test_loops_over_tasks(target):
    """Small values inside their messages, and large ones behind them."""
    for size in (4, 5000):
        x = hf.placeholder(hf.float32, [size])

        def body(i, v):
            with hf.device("/job:ps/task:0"):
                v = v * 1.0009765625 + 0.0001
            with hf.device("/job:worker/task:1"):
                v = v + 0.0001
            return i + 1, v

        _, out = hf.while_loop(lambda i, v: i < 3, body, [0, x])
        values = np.random.RandomState(5).standard_normal(size).astype(np.float32)
        expected = values
        for _ in range(3):
            there_and_back = truncated(expected) * np.float32(1.0009765625) + np.float32(0.0001)
            expected = truncated(there_and_back) + np.float32(0.0001)
        with hf.Session(target, config=compressing()) as session:
            same_bits(session.run(out, {x: values}), truncated(expected))


def test_variables_keep_all_bits_and_gradients_are_compressed(target):
    start = np.float32([np.pi, np.e])
    with hf.device("/job:ps/task:0"):
        v = hf.Variable(start)
    with hf.device("/job:worker/task:0"):
        change = hf.placeholder(hf.float32, [2])
    with hf.device("/job:ps/task:0"):
        update = hf.assign_add(v, change)
        kept = hf.bitcast(v, hf.int32)
    delta = np.float32([0.1, -0.7])
    with hf.Session(target, config=compressing()) as session:
        session.run(v.initializer)
        same_bits(session.run(kept), start)
        session.run(update.op, {change: delta})
        same_bits(session.run(kept), start + truncated(delta))
        same_bits(session.run(v), truncated(start + truncated(delta)))
