"""py_func: Python functions as operations."""

import gc
import threading

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.base import callbacks

pytestmark = pytest.mark.usefixtures("checked")


def test_values_of_all_kinds(session):
    seen = []

    def look(*args):
        seen.extend(args)
        return np.float32(args[0] + 1)

    inputs = [hf.constant(2.0), "ab", ["a\0", "c"], hf.constant([[1, 2]]), True]
    y = hf.py_func(look, inputs, hf.float32)
    assert session.run(y) == 3 and y.op.type == "PyFunc" and y.shape.ndims is None
    scalar, text, texts, matrix, flag = seen
    assert isinstance(scalar, np.float32) and text == b"ab" and flag
    assert texts.dtype == object and texts.tolist() == [b"a\0", b"c"]
    assert matrix.dtype == np.int32 and matrix.tolist() == [[1, 2]]


def test_several_outputs_and_none(session):
    x = hf.placeholder(hf.float64)
    sums = hf.py_func(lambda x: (x.sum(), np.int32(x.size)), [x], [hf.float64, hf.int32])
    assert session.run(sums, {x: [1.5, 2.5]}) == [4.0, 2]
    one = hf.py_func(lambda x: [x * 2], [x], [hf.float64])
    assert isinstance(one, list) and session.run(one, {x: 2.0}) == [4.0]
    seen = []
    nothing = hf.py_func(seen.append, [x], [])
    assert isinstance(nothing, hf.Operation) and session.run(nothing, {x: 1.0}) is None
    assert seen == [1.0]


@pytest.mark.parametrize(("value", "wanted"), [
    ("hé", "hé".encode()), (b"h\0", b"h\0"), (np.array(["a", "bb"]), [b"a", b"bb"]),
    (np.array([b"a\0b"], object), [b"a\0b"]), (np.array("x"), b"x")])
def test_strings(session, value, wanted):
    got = session.run(hf.py_func(lambda: value, [], hf.string))
    assert got.tolist() == wanted if isinstance(wanted, list) else got == wanted


def test_a_function_may_change_its_arguments_and_keep_its_results(session):
    kept = np.zeros(2, np.float32)

    def change(x):
        x += 1
        kept[:] = x
        return kept

    x = hf.constant([1.0, 2.0])
    first = session.run([hf.py_func(change, [x], hf.float32), x])
    kept[:] = -1
    assert [v.tolist() for v in first] == [[2, 3], [1, 2]]
    assert session.run(x).tolist() == [1, 2]


def test_stateless_functions(session):
    x = hf.placeholder(hf.float32, [])
    y = hf.py_func(np.sin, [x], hf.float32, stateful=False, name="sine")
    assert y.op.type == "PyFuncStateless" and y.op.name == "sine"
    assert session.run(y, {x: 0.5}) == np.sin(np.float32(0.5))
    assert hf.py_func(np.sin, [x], [], stateful=False) == []


def test_a_stateful_function_is_called_once_in_every_step(form, session):
    calls = []
    y = hf.py_func(lambda: np.int64(calls.append(1) or len(calls)), [], hf.int64)
    z = hf.py_func(lambda: np.int64(-len(calls)), [], hf.int64)
    assert [session.run(y) for _ in range(3)] == [1, 2, 3]
    assert session.run([y, y + 1]) == [4, 5] and session.run(z) == -4


@pytest.mark.parametrize(("result", "types", "message"), [
    (1.0, hf.float32, "0-th value returned by pyfunc_.* is double, but expects float"),
    ([1.0, 2.0], hf.float64, "returns 2 values, but expects to see 1 values"),
    (None, hf.float64, "returns 0 values, but expects to see 1 values"),
    (["a", "b"], hf.string, "returns 2 values"),
    ("a", hf.int32, "is string, but expects int32"),
    (1, hf.string, "is int64, but expects string"),
    ((np.float32(1), np.float32(2)), [hf.float32, hf.int32], "1-th value .* is float, but")])
def test_results_that_do_not_fit(session, result, types, message):
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        session.run(hf.py_func(lambda: result, [], types))


@pytest.mark.parametrize(("raised", "wanted"), [
    (ValueError, "InvalidArgumentError"), (TypeError, "InvalidArgumentError"),
    (StopIteration, "OutOfRangeError"), (MemoryError, "ResourceExhaustedError"),
    (NotImplementedError, "UnimplementedError"), (KeyError, "UnknownError"),
    (ZeroDivisionError, "UnknownError")])
def test_errors_of_the_function(session, raised, wanted):
    def fails(x):
        raise raised("the reason")

    y = hf.py_func(fails, [1.0], hf.float32, name="caller")
    with pytest.raises(getattr(hf.errors, wanted)) as caught:
        session.run(y)
    message = caught.value.message
    assert f"{raised.__name__}: " in message and "the reason" in message
    assert "in fails" in message and "'caller'" in message and caught.value.op is y.op
    assert isinstance(caught.value.__cause__, raised)


def test_an_error_of_a_step_keeps_its_class(session):
    def ends():
        raise hf.errors.OutOfRangeError(None, None, "no more")

    with pytest.raises(hf.errors.OutOfRangeError, match="no more"):
        session.run(hf.py_func(ends, [], hf.float32))


def test_arguments_of_the_wrong_kind(graph):
    with pytest.raises(TypeError, match="expected a function"):
        hf.py_func(3, [], hf.float32)
    with pytest.raises(TypeError, match="must be a list"):
        hf.py_func(abs, 3.0, hf.float32)


def test_a_gradient_of_its_own(session, graph):
    @hf.RegisterGradient(f"CubeOfPyFunc{np.random.default_rng().integers(1 << 62)}")
    def cube_grad(op, grad):
        return 3 * op.inputs[0] ** 2 * grad

    name = next(n for n, f in hf.graph.opdef.GRADIENTS.items() if f is cube_grad)
    x = hf.constant(2.0)
    with graph.gradient_override_map({"PyFunc": name}):
        y = hf.py_func(lambda v: v**3, [x], hf.float32)
    y.set_shape([])
    assert session.run([y, hf.gradients(y, x)[0]]) == [8.0, 12.0]
    plain = hf.py_func(lambda v: v**3, [x], hf.float32)
    assert hf.gradients(plain, x) == [None]


def test_inside_loops_and_branches(form, session):
    calls = []

    def double(x):
        calls.append(x)
        return x * 2

    def call(v):
        y = hf.py_func(double, [v], hf.int32)
        y.set_shape([])
        return y

    end = hf.while_loop(lambda i: i < 50, call, [hf.constant(1)])
    assert session.run(end) == 64 and calls == [1, 2, 4, 8, 16, 32]
    p = hf.placeholder(hf.bool, [])
    chosen = hf.cond(p, lambda: call(hf.constant(5)), lambda: hf.constant(0))
    calls.clear()
    assert [session.run(chosen, {p: v}) for v in (True, False)] == [10, 0] and calls == [5]


def test_functions_live_as_long_as_their_graph():
    gc.collect()
    before = callbacks.count()
    with hf.Graph().as_default() as graph, hf.Session() as session:
        y = hf.py_func(lambda: np.float32(1), [], hf.float32)
        gc.collect()
        assert session.run(y) == 1 and callbacks.count() == before + 1
        proto = graph.as_graph_def()
    del y, graph, session
    gc.collect()
    assert callbacks.count() == before
    with hf.Graph().as_default(), hf.Session() as session:
        (y,) = hf.import_graph_def(proto, return_elements=["PyFunc:0"])
        with pytest.raises(hf.errors.FailedPreconditionError, match="no Python function"):
            session.run(y)


def test_the_example_of_a_user_op(session):
    assert session.run(hf.user_ops.my_fact()) == b"0! == 1"


@pytest.mark.parametrize("result, error, message", [
    ({"a": 1}, hf.errors.InternalError, "Unsupported object type dict"),
    (np.array([b"a", None]), hf.errors.InternalError, "Unsupported object type NoneType"),
    (np.float64(1), hf.errors.InvalidArgumentError,
     r"0-th value returned by pyfunc_\d+ is double, but expects int64"),
])
def test_values_of_other_types(result, error, message):
    with hf.Graph().as_default(), hf.Session() as session:
        with pytest.raises(error, match=message):
            session.run(hf.py_func(lambda: result, [], hf.int64))


def test_functions_that_wait_for_each_other(session):
    meeting = threading.Barrier(3, timeout=patience())

    def meet(x):
        meeting.wait()
        return x + 1

    x = hf.placeholder(hf.float32, [])
    ys = [hf.py_func(meet, [x + i], hf.float32) for i in range(3)]
    for _ in range(2):
        assert session.run(ys, {x: 1.0}) == [2, 3, 4]


def test_a_function_that_fails_beside_another(session):
    x = hf.placeholder(hf.float32, [])
    y = hf.py_func(lambda x: x, [x], hf.float32)
    z = hf.py_func(lambda x: np.zeros(2)[3], [x], hf.float32, name="bad")
    with pytest.raises(hf.errors.UnknownError, match=r"(?s)IndexError: .*'bad'.*PyFunc") as e:
        session.run([y, z], {x: 1.0})
    assert e.value.op is z.op and session.run(y, {x: 1.0}) == 1


def test_functions_one_after_the_other_share_a_thread(session):
    threads = []

    def note(x):
        threads.append(threading.current_thread())
        return x

    x = hf.placeholder(hf.float32, [])
    y = hf.py_func(note, [hf.py_func(note, [x], hf.float32) + 1], hf.float32)
    assert session.run(y, {x: 1.0}) == 2
    assert threads == [threading.current_thread()] * 2


def test_a_stateless_function_without_inputs_is_called_once(form, session):
    numbers = iter(range(100))
    y = hf.py_func(lambda: next(numbers), [], hf.int64, stateful=False)
    assert [session.run(y) for _ in range(3)] == [0, 0, 0]
