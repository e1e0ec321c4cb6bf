"""What a failing step says: the op, its type, device, input shapes and the user's line."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import errors, raw_ops
from hpcflow.graph.opdef import has_op, register_op
from hpcflow.graph.shape_inference import unchanged
from hpcflow.kernels.registry import kernel

FILE = "test_errors_steps.py"
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


class Trouble(Exception):
    """What the kernel of TestTrouble raises."""


def _trouble(node):
    kinds = {
        b"value": lambda: ValueError("the value is wrong"), b"index": lambda: IndexError("index 9"),
        b"memory": MemoryError, b"key": lambda: KeyError("k"), b"own": lambda: Trouble("mine"),
        b"not implemented": lambda: NotImplementedError("not yet"),
        b"file": lambda: FileNotFoundError(2, "no such file"), b"assert": AssertionError,
        b"range": lambda: errors.OutOfRangeError(None, None, "the end was passed"),
        b"interrupt": KeyboardInterrupt, b"factory": None,
    }  # fmt: skip
    make = kinds[node.attr("kind")]
    if make is None:
        raise ValueError("cannot be made")

    def run(x):
        raise make()

    return run


if not has_op("TestTrouble"):
    register_op("TestTrouble", "x: T", "y: T", "T: type; kind: string", shape=unchanged)
    kernel("TestTrouble")(_trouble)


def failure(session, fetches, feeds=None, error=errors.OpError):
    with pytest.raises(error) as caught:
        session.run(fetches, feeds)
    return caught.value


def line_of(mark):
    """The line of this file that ends with the comment `mark`."""
    with open(__file__) as f:
        return next(i for i, text in enumerate(f, 1) if text.rstrip().endswith(f"# {mark}"))


def test_everything_is_in_the_message(form, graph, session):
    a = hf.placeholder(hf.float32, [None, None], name="a")
    b = hf.placeholder(hf.float32, [None, None], name="b")
    c = hf.matmul(a, b, name="product")  # the product
    error = failure(session, hf.reduce_sum(c * 2.0), {a: np.ones((2, 3)), b: np.ones((4, 5))})
    message = str(error)
    assert isinstance(error, errors.InvalidArgumentError)
    assert f"op 'product' of type MatMul on {DEVICE}" in message
    assert "inputs float32[2,3], float32[4,5]" in message
    assert f"{FILE}:{line_of('the product')} in test_everything_is_in_the_message" in message
    assert error.op is c.op
    assert error.node_def.name == "product"
    assert error.error_code == errors.INVALID_ARGUMENT
    assert session.run(c, {a: [[1.0]], b: [[2.0]]}) == [[2]]


@pytest.mark.parametrize(("kind", "error", "words"), [
    ("value", errors.InvalidArgumentError, "the value is wrong"),
    ("index", errors.InvalidArgumentError, "index 9"),
    ("memory", errors.ResourceExhaustedError, "Out of memory"),
    ("key", errors.InternalError, "KeyError: 'k'"),
    ("own", errors.InternalError, "Trouble: mine"),
    ("assert", errors.InternalError, "AssertionError"),
    ("not implemented", errors.UnimplementedError, "not yet"),
    ("file", errors.NotFoundError, "no such file"),
    ("range", errors.OutOfRangeError, "the end was passed"),
    ("factory", errors.InvalidArgumentError, "cannot be made"),
])  # fmt: skip
def test_classes(form, graph, session, kind, error, words):
    x = hf.placeholder(hf.float32, [2], name="x")
    bad = raw_ops.TestTrouble(x=x, kind=kind, name="bad")
    for _ in range(2):
        raised = failure(session, bad, {x: [1, 2]}, error)
        assert type(raised) is error
        assert words in str(raised)
        assert "op 'bad' of type TestTrouble" in str(raised)
        assert raised.op is bad.op
        assert session.run(x + 1.0, {x: [1, 2]}).tolist() == [2, 3]


def test_the_cause_is_kept(form, graph, session):
    bad = raw_ops.TestTrouble(x=hf.placeholder_with_default(1.0, []), kind="own")
    assert isinstance(failure(session, bad).__cause__, Trouble)


def test_interrupts_stay_interrupts(form, graph, session):
    x = hf.placeholder(hf.float32, [])
    bad = raw_ops.TestTrouble(x=x, kind="interrupt")
    failure(session, [bad, x], {x: 1.0}, KeyboardInterrupt)
    assert session.run(x, {x: 1.0}) == 1


def test_a_factory_that_fails_matters_only_if_the_node_runs(form, graph, session):
    p = hf.placeholder(hf.bool, [])
    false, true = raw_ops.Switch(data=hf.constant(1.0), pred=p)
    bad = raw_ops.TestTrouble(x=true, kind="factory")
    result, _ = raw_ops.Merge(inputs=[bad, false])
    assert session.run(result, {p: False}) == 1
    failure(session, result, {p: True}, errors.InvalidArgumentError)


def test_a_failing_node_is_not_folded_away(form, graph, session):
    bad = hf.floordiv(hf.constant(1), hf.constant(0), name="divide")
    assert "op 'divide'" in str(failure(session, bad))
    assert session.run(hf.constant(3)) == 3


def test_the_right_op_of_a_long_region(form, graph, session):
    x = hf.placeholder(hf.int32, [], name="x")
    y, ops = hf.identity(x), []
    for i in range(400):
        y = hf.floordiv(y + 1, hf.abs(x - i) * 0 + hf.minimum(hf.abs(x - i), 1))
        ops.append(y.op)
    for k in (0, 7, 399):
        error = failure(session, y, {x: k}, errors.InvalidArgumentError)
        assert error.op is ops[k]
        assert f"'{ops[k].name}'" in str(error)
    session.run(y, {x: 400})


def test_regions_of_equal_source(form, graph, session):
    """Steps that share code blame their own ops."""
    x = hf.placeholder(hf.int32, [2])
    made = []
    for name in ("first", "second", "third"):
        made.append(hf.floordiv(hf.constant([6, 6]), x + 0, name=name))  # the division
    for y in made:
        assert session.run(y, {x: [1, 2]}).tolist() == [6, 3]
    for y in [*made, *reversed(made)]:
        error = failure(session, y, {x: [1, 0]})
        assert error.op is y.op
        assert f"op '{y.op.name}'" in str(error)
        assert f"{FILE}:{line_of('the division')}" in str(error)


def test_several_fetches_of_one_region_and_another_device(form, graph):
    x = hf.placeholder(hf.int32, [])
    with hf.device("/cpu:1"):
        far = hf.floordiv(1, x, name="far")
    near = x * 2
    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session:
        error = failure(session, [near, far], {x: 0})
        assert "op 'far' of type FloorDiv on /job:localhost/replica:0/task:0/device:CPU:1" in str(
            error)
        assert session.run([near, far], {x: 1}) == [2, 1]


# ---------------------------------------------------------------- variables


def test_uninitialized_variables(form, graph, session):
    v = hf.Variable([1.0, 2.0], name="weights")
    other = hf.Variable(1.0, name="other")
    session.run(other.initializer)
    uses = [v, v * 2.0, v.read_value(), v.assign_add([1.0, 1.0]), hf.scatter_add(v, [0], [1.0]),
            raw_ops.ApplyGradientDescent(var=v._ref(), alpha=0.1, delta=[1.0, 1.0])]
    for use in uses:
        for fetches in (use, [other, use]):
            error = failure(session, fetches, error=errors.FailedPreconditionError)
            assert "Attempting to use uninitialized value weights" in str(error)
            assert "NoneType" not in str(error)
            assert isinstance(error.op, hf.Operation)
    assert not session.run(hf.is_variable_initialized(v))
    session.run(v.initializer)
    assert session.run(v).tolist() == [1, 2]


def test_updates_before_the_failure_stay_and_locks_are_free(form, graph, session):
    v = hf.Variable([1.0, 2.0])
    session.run(v.initializer)
    x = hf.placeholder(hf.float32, None)
    update = v.assign_add(x)
    with pytest.raises(errors.InvalidArgumentError):
        session.run(update, {x: [1, 2, 3]})
    assert session.run(update, {x: [1, 1]}).tolist() == [2, 3]


def test_wrong_kernels_are_found_out(checked, graph, session):
    """With HPCFLOW_CHECK_STAGES=1 a kernel is held to what it is registered as."""
    lies = {
        "TestLieFresh": (lambda node: lambda x: x[::1], {"fresh": True}, "shares memory"),
        "TestLieWrites": (lambda node: _add_one, {}, "wrote into an input"),
        "TestLieType": (lambda node: lambda x: x.astype(np.float64), {}, "returned float64"),
        "TestLieShape": (lambda node: lambda x: x[:1].copy(), {}, "returned shape"),
        "TestLieCount": (lambda node: lambda x: (x, x), {}, "returned tuple"),
        "TestLieNumber": (lambda node: lambda x: 3.0, {}, "returned float"),
    }
    x = hf.placeholder(hf.float32, [3])
    for name, (factory, options, words) in lies.items():
        if not has_op(name):
            register_op(name, "x: T", "y: T", "T: type", shape=unchanged)
            kernel(name, **options)(factory)
        error = failure(session, getattr(raw_ops, name)(x=x), {x: [1, 2, 3]}, errors.InternalError)
        assert words in str(error), name
        assert name in str(error)


def test_kernels_may_write_into_what_they_take_over(checked, graph, session):
    x = hf.placeholder(hf.float32, [3])
    if not has_op("TestTakesOver"):
        register_op("TestTakesOver", "x: T; y: T", "z: T", "T: type", shape=unchanged)
        kernel("TestTakesOver", takes_over=0, fresh=True)(lambda node: _added)
    found = session.run(raw_ops.TestTakesOver(x=x * 2.0, y=x), {x: [1, 2, 3]})
    assert found.tolist() == [3, 6, 9]


def _added(x, y, own=False):
    assert own
    x += y
    return x


def _add_one(x):
    x += 1
    return x.copy()
