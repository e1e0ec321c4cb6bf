"""Stacks, and that nothing that lives as long as a step lives longer."""

import gc

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import errors, raw_ops
from hpcflow.resources.stack import Stack
from hpcflow.resources.tensor_array import TensorArray

pytestmark = pytest.mark.usefixtures("form")


def after(first, build):
    with hf.control_dependencies([first]):
        return build()


def pop(stack, dtype=hf.float32):
    return raw_ops.StackPopV2(handle=stack, elem_type=dtype)


# ---------------------------------------------------------------- operations


def test_last_in_first_out(session, graph):
    stack = raw_ops.StackV2(max_size=-1, elem_type=hf.float32)
    one = raw_ops.StackPushV2(handle=stack, elem=1.0)
    two = after(one, lambda: raw_ops.StackPushV2(handle=stack, elem=[2.0, 3.0]))
    first = after(two, lambda: pop(stack))
    second = after(first, lambda: pop(stack))
    values = session.run([one, two, first, second])
    for value, expected in zip(values, [1, [2, 3], [2, 3], 1]):
        np.testing.assert_array_equal(value, expected)


def test_handles_by_reference(session, graph):
    stack = raw_ops.Stack(elem_type=hf.int32, stack_name="mine")
    pushed = raw_ops.StackPush(handle=stack, elem=7)
    popped = after(pushed, lambda: raw_ops.StackPop(handle=stack, elem_type=hf.int32))
    assert session.run(popped) == 7
    empty = after(popped, lambda: raw_ops.StackPop(handle=stack, elem_type=hf.int32))
    with pytest.raises(errors.InvalidArgumentError, match=r"Stack\[mine_\d+\] is empty"):
        session.run(empty)


@pytest.mark.parametrize(("build", "error", "message"), [
    (lambda s: pop(s), errors.InvalidArgumentError, "is empty when calling Pop"),
    (lambda s: after(raw_ops.StackPushV2(handle=s, elem=1.0),
                     lambda: raw_ops.StackPushV2(handle=s, elem=2.0)),
     errors.ResourceExhaustedError, "overflowed its max_size"),
    (lambda s: after(raw_ops.StackCloseV2(handle=s), lambda: pop(s)),
     errors.InvalidArgumentError, "already been closed"),
    (lambda s: after(raw_ops.StackCloseV2(handle=s),
                     lambda: raw_ops.StackPushV2(handle=s, elem=2.0)),
     errors.InvalidArgumentError, "already been closed"),
])
def test_errors(session, graph, build, error, message):
    with pytest.raises(error, match=message):
        session.run(build(raw_ops.StackV2(max_size=1, elem_type=hf.float32)))


def test_every_step_has_its_own(session, graph):
    stack = raw_ops.StackV2(max_size=1, elem_type=hf.float32)
    pushed = raw_ops.StackPushV2(handle=stack, elem=1.0)
    for _ in range(3):
        assert session.run(pushed) == 1


# ---------------------------------------------------------------- the end of a step


def living():
    """Stacks and arrays that exist and hold something or are open."""
    gc.collect()
    return [o for o in gc.get_objects()
            if issubclass(type(o), (Stack, TensorArray)) and not o.closed]


@pytest.fixture
def program(graph):
    """A nested loop with arrays, and its gradient, that fails where `bad` is zero."""
    bad = hf.placeholder(hf.int32, [])
    x = hf.placeholder(hf.float32, [3])

    def body(i, a, ta):
        inner = hf.while_loop(
            lambda j, b: j < 2, lambda j, b: [j + 1, hf.sin(b) * hf.to_float(4 // bad)], [0, a])[1]
        return [i + 1, hf.cond(hf.equal(i % 2, 0), lambda: inner * a, lambda: inner),
                ta.write(i, inner)]

    _, a, ta = hf.while_loop(lambda i, *_: i < 3, body, [0, x, hf.TensorArray(hf.float32, 3)])
    grad = hf.gradients([a, ta.stack()], x)[0]
    return bad, x, [a, grad]


def test_nothing_is_left_after_a_step(session, program):
    bad, x, fetches = program
    before = len(living())
    for _ in range(2):
        session.run(fetches, {bad: 4, x: [1, 2, 3]})
    assert len(living()) == before


def test_nothing_is_left_after_a_failed_step(session, program):
    bad, x, fetches = program
    before = len(living())
    with pytest.raises(errors.InvalidArgumentError) as caught:
        session.run(fetches, {bad: 0, x: [1, 2, 3]})
    assert len(living()) == before  # also while somebody holds the error
    del caught
    session.run(fetches, {bad: 4, x: [1, 2, 3]})
    assert len(living()) == before


def test_a_failed_backward_pass(session, graph):
    x = hf.placeholder(hf.float32, [2])

    @hf.RegisterGradient(f"Failing{id(session)}")
    def failing(op, grad):
        return grad * hf.to_float(1 // hf.to_int32(op.inputs[0][0] * 0))

    with graph.gradient_override_map({"Sin": f"Failing{id(session)}"}):
        y = hf.while_loop(lambda i, a: i < 4, lambda i, a: [i + 1, hf.sin(a) + a], [0, x])[1]
    grad = hf.gradients(y, x)[0]
    before = len(living())
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError):
            session.run(grad, {x: [1, 2]})
    assert len(living()) == before


def test_rows_of_arrays_are_values_like_others():
    """However many of them are taken at a time, and whatever lies below and above them."""
    rows = np.arange(6).reshape(3, 2)

    def stack_of(*below):
        found = Stack("rows")
        for value in below:
            found.push(value)
        found.push_rows(rows)
        return found

    for below in ((), (7,)):
        stack = stack_of(*below)
        np.testing.assert_array_equal(list(stack.peek(2)), rows[:0:-1])
        assert [v.tolist() for v in stack.values[len(below) :]] == rows.tolist()
        stack.drop(2)
        np.testing.assert_array_equal(stack.peek(1)[0], rows[0])
        stack.push_rows(rows)
        np.testing.assert_array_equal(stack.pop(), rows[2])
        stack.push(8)
        assert stack.pop() == 8
        stack.drop(2 + 1)
        assert list(stack.values) == list(below)
    for taken in (1, 3):
        stack = stack_of()
        stack.drop(taken)
        assert len(stack.peek(5)) == len(stack.values) == 3 - taken
        stack.push(9)
        assert stack.pop() == 9
    stack = stack_of()
    stack.close()
    assert not stack.values and not len(stack.peek(1))
