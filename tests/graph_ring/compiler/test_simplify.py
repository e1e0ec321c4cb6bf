"""simplify and dead branches: what a step no longer does, with the values it had."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import kernels
from hpcflow.compiler.ir import checks
from hpcflow.compiler.rewrite.dead_branches import remove_dead_branches
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.compiler.rewrite.simplify import simplify

DEVICE = "/job:a/replica:0/task:0/device:CPU:0"


@pytest.fixture(autouse=True)
def graph():
    kernels.load()
    with hf.Graph().as_default() as graph:
        yield graph


def types(fetches, *passes):
    """The op types left of a step, without feeds, fetches and constants."""
    step = prune(fetches if isinstance(fetches, list) else [fetches], [], DEVICE)
    for run in passes:
        run(step)
        checks.check(step, run.__name__)
    return [n.type for n in step.nodes if n.type not in ("_Feed", "_Fetch", "_FetchOp", "Const")]


def left(fetches):
    return types(fetches, simplify)


def x(dims=(2, 3), dtype=hf.float32):
    return hf.placeholder(dtype, list(dims))


KEPT = "Placeholder"


@pytest.mark.parametrize("build", [
    lambda v: v * 1.0, lambda v: 1.0 * v, lambda v: v / 1.0, lambda v: v - 0.0,
    lambda v: v * np.ones((2, 3), np.float32), lambda v: v + (-0.0), lambda v: v**1.0,
    lambda v: hf.negative(-v), hf.identity, hf.stop_gradient, lambda v: hf.reshape(v, [2, 3]),
    lambda v: hf.reshape(hf.reshape(v, [6]), [2, 3]),
    lambda v: hf.transpose(hf.transpose(v)), lambda v: hf.transpose(v, [0, 1]),
    lambda v: hf.cast(v, hf.float32), lambda v: hf.tile(v, [1, 1]),
    lambda v: hf.pad(v, [[0, 0], [0, 0]]), lambda v: hf.slice(v, [0, 0], [-1, 3]),
    lambda v: hf.reduce_sum(v, []), lambda v: hf.add_n([v]),
    lambda v: hf.squeeze(hf.expand_dims(v, 0), [0]),
])  # fmt: skip
def test_nothing_is_left_of(build):
    assert left(build(x())) == [KEPT]


@pytest.mark.parametrize("build", [
    lambda v: v + 0.0,  # -0 + 0 is 0
    lambda v: v - np.float32(-0.0), lambda v: v * 0.0, lambda v: 1.0 / v, lambda v: 1.0 - v,
    lambda v: v * np.ones((4, 2, 3), np.float32),  # broadcasts
    lambda v: v * np.float32([1, 1, 2]), lambda v: hf.transpose(v), lambda v: hf.reshape(v, [3, 2]),
    lambda v: hf.slice(v, [0, 0], [1, 3]), lambda v: hf.reduce_sum(v, [0], keep_dims=True),
    lambda v: hf.cast(v, hf.float64),
])  # fmt: skip
def test_what_changes_something_stays(build):
    assert len(left(build(x()))) == 2


def test_unknown_shapes():
    v = hf.placeholder(hf.float32, [None, 3])
    assert left(v * 1.0) == [KEPT]
    assert left(v * np.ones((1, 3), np.float32)) == [KEPT, "Mul"]  # one row may become more
    assert left(hf.reshape(v, [-1, 3])) == [KEPT, "Reshape"]


def test_integers():
    v = x(dtype=hf.int32)
    assert left(v + 0) == [KEPT]
    assert left(hf.bitcast(v, hf.int32)) != []
    assert left(v // 1) == [KEPT, "FloorDiv"]


def test_rewrites():
    assert left(x() ** 2.0) == [KEPT, "Square"]
    assert left(hf.reshape(hf.reshape(x(), [6]), [3, 2])) == [KEPT, "Reshape"]
    assert left(hf.abs(hf.abs(x()))) == [KEPT, "Abs"]


def test_reads_of_variables_and_other_devices_stay():
    v = hf.Variable(np.ones(2, np.float32))
    assert left(hf.identity(v)) == ["VariableV2", "Identity"]
    here = x()
    with hf.device("/cpu:1"):
        there = hf.identity(here)
    assert left(there) == [KEPT, "Identity"]


def test_pivots_stay():
    p = hf.placeholder(hf.bool, [])
    off, on = hf.raw_ops.Switch(data=hf.constant(1.0), pred=p)
    pivot = hf.identity(on)
    with hf.control_dependencies([pivot]):
        inside = hf.constant(3.0)
    merged = hf.raw_ops.Merge(inputs=[hf.identity(off), inside])[0]
    assert left(merged).count("Identity") == 1


def test_a_constant_predicate_leaves_one_branch():
    a, b = x(), x()
    result = hf.cond(hf.constant(True), lambda: a * 2.0, lambda: hf.Print(b, [b]))
    found = types(result, simplify, remove_dead_branches, simplify)
    assert sorted(found) == ["Mul", KEPT]
    result = hf.cond(hf.constant(False), lambda: a * 2.0, lambda: hf.cond(
        hf.placeholder(hf.bool, []), lambda: b, lambda: hf.exp(b)))
    found = types(result, simplify, remove_dead_branches, simplify)
    assert "Mul" not in found and found.count("Merge") == 1


def test_the_index_of_a_resolved_merge():
    data = x()
    first, second = hf.raw_ops.Switch(data=data, pred=hf.constant(True))
    merged, index = hf.raw_ops.Merge(inputs=[first, second])
    assert types([merged, index], remove_dead_branches, simplify) == [KEPT]
    with hf.Session() as session:
        assert session.run(index + 1, {data: np.ones((2, 3))}) == 2


def test_a_dead_fetch_still_fails():
    first, _ = hf.raw_ops.Switch(data=hf.constant(1.0), pred=hf.constant(True))
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="dead"):
        session.run(first + 1.0)


def test_a_loop_in_a_dead_branch():
    limit = hf.placeholder(hf.int32, [])

    def count():
        return hf.while_loop(lambda i: i < limit, lambda i: i + 1, [0])

    result = hf.cond(hf.constant(False), count, lambda: hf.constant(7))
    assert "Enter" not in types(result, simplify, remove_dead_branches)
    other = hf.cond(hf.constant(True), count, lambda: hf.constant(7))
    assert "Enter" in types(other, simplify, remove_dead_branches)
    with hf.Session() as session:
        assert session.run([result, other], {limit: 4}) == [7, 4]


def test_values_stay_bitwise():
    rng = np.random.RandomState(3)
    v = hf.placeholder(hf.float32, [2, 3])
    y = hf.transpose(hf.transpose(hf.negative(-v) * 1.0)) - 0.0
    special = np.array([[-0.0, 0.0, np.inf], [np.nan, -np.inf, rng.rand()]], np.float32)
    off = hf.ConfigProto()
    off.graph_options.optimizer_options.opt_level = -1
    with hf.Session() as one, hf.Session(config=off) as two:
        a, b = (s.run(y, {v: special}) for s in (one, two))
    assert a.tobytes() == b.tobytes() == special.tobytes()


# ---------------------------------------------------------------- what keeps a node where it is


def in_a_loop(read):
    """A loop whose body does something with ``read(x)``, where x comes from outside."""
    tensor = x()

    def body(i):
        with hf.control_dependencies([hf.Print(read(tensor), [i])]):
            return i + 1

    return hf.while_loop(lambda i: i < 3, body, [0])


def test_a_shape_that_keeps_a_reshape_inside_a_loop_stays():
    assert "Reshape" in left(in_a_loop(lambda v: hf.reshape(v, [2, 3])))
    assert "Reshape" in left(in_a_loop(lambda v: hf.reshape(hf.reshape(v, [6]), [2, 3])))
    assert "ExpandDims" in left(in_a_loop(lambda v: hf.expand_dims(v, 0)))


def test_reshapes_of_values_of_an_iteration_go():
    def body(i, a):
        return i + 1, hf.reshape(hf.reshape(a * 2.0, [6]), [2, 3])

    assert "Reshape" not in left(list(hf.while_loop(lambda i, _: i < 3, body, [0, x()])))


def test_reshapes_in_branches_go():
    tensor = x()
    taken = hf.cond(hf.placeholder(hf.bool, []), lambda: hf.reshape(tensor, [2, 3]) * 2.0,
                    lambda: tensor)
    assert "Reshape" not in left(taken)


def test_a_shape_that_waits_for_something_stays():
    first = hf.Print(x(), [1])
    with hf.control_dependencies([first]):
        shape = hf.constant([2, 3])
    assert "Reshape" in left(hf.reshape(x(), shape))
