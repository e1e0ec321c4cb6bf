"""Gradients through TensorArrays."""

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow import errors, raw_ops

pytestmark = pytest.mark.usefixtures("form")

RNG = np.random.default_rng(13)


def normal(*shape):
    return 0.6 * RNG.normal(size=shape)


def array(size, **options):
    return hf.TensorArray(hf.float64, size, **options)


@pytest.fixture(params=[1, 10])
def options(request):
    return {"parallel_iterations": request.param}


# ---------------------------------------------------------------- every operation


def test_write_and_read():
    def build(x, y):
        ta = array(2, clear_after_read=False).write(0, x * y).write(1, y)
        return ta.read(0) * ta.read(1), ta.read(0)

    check_gradient(build, normal(2), normal(2))


def test_unstack_and_stack():
    check_gradient(lambda x: array(3).unstack(x * x).stack() * 2, normal(3, 2))


def test_scatter_and_gather():
    def build(x, y):
        ta = array(4).scatter([3, 0], x).write(1, y).write(2, y * y)
        return ta.gather([0, 3])

    check_gradient(build, normal(2, 2), normal(2))


def test_reading_an_element_several_times():
    check_gradient(lambda x: array(3, clear_after_read=False).unstack(x).gather([1, 1, 2]),
                   normal(3, 2))


def test_split_and_concat():
    def build(x):
        ta = array(3, infer_shape=False).split(x * x, [1, 3, 2])
        return ta.concat() * 2

    check_gradient(build, normal(6, 2))


@pytest.mark.parametrize("version", ["", "V2"])
def test_old_versions(version):
    def op(name):
        return getattr(raw_ops, f"TensorArray{name}{version}")

    def build(x, y):
        handle = op("")(size=3, dtype=hf.float64, clear_after_read=False)
        flow = op("Write")(handle=handle, index=0, value=x, flow_in=0.0)
        flow = op("Scatter")(handle=handle, indices=[2, 1], value=y, flow_in=flow)
        read = op("Read")(handle=handle, index=0, flow_in=flow, dtype=hf.float64)
        gathered = op("Gather")(handle=handle, indices=[1, 0], flow_in=flow, dtype=hf.float64)
        second = op("")(size=2, dtype=hf.float64)
        flow = op("Split")(handle=second, value=y, flow_in=0.0,
                           lengths=hf.constant([1, 1], hf.int64))
        joined, _ = op("Concat")(handle=second, flow_in=flow, dtype=hf.float64)
        return read * 2, gathered, joined * joined

    check_gradient(build, normal(2), normal(2, 2), second=False)


def test_pack_and_unpack():
    def build(x):
        handle = raw_ops.TensorArray(size=3, dtype=hf.float64)
        flow = raw_ops.TensorArrayUnpack(handle=handle, value=x, flow_in=0.0)
        return raw_ops.TensorArrayPack(handle=handle, flow_in=flow, dtype=hf.float64) * x

    check_gradient(build, normal(3, 2), second=False)


# ---------------------------------------------------------------- in loops


def test_a_recurrence(options):
    def build(x, w):
        source, results = array(4).unstack(x), array(4)

        def body(i, state, results):
            state = hf.tanh(state * w + source.read(i))
            return [i + 1, state, results.write(i, state * state)]

        loop = hf.while_loop(lambda i, *_: i < 4, body, [0, hf.zeros_like(w), results], **options)
        return loop[2].stack(), loop[1]

    check_gradient(build, normal(4, 2), normal(2), second=False)


def test_an_array_made_in_a_loop(options):
    def build(x, w):
        def body(i, s):
            ta = array(3, clear_after_read=False).unstack(x * hf.reduce_sum(s))
            inner = hf.while_loop(lambda j, a: j < 2,
                                  lambda j, a: [j + 1, a * ta.read(j) + ta.read(2)], [0, s],
                                  **options)
            return [i + 1, inner[1] * w]

        return hf.while_loop(lambda i, s: i < 2, body, [0, w], **options)[1]

    check_gradient(build, normal(3, 2), normal(2), second=False)


def test_in_a_branch_in_a_loop(options):
    def build(x, w):
        ta = array(4, clear_after_read=False).unstack(x)

        def body(i, s):
            return [i + 1, hf.cond(hf.equal(i % 2, 0), lambda: s * ta.read(i),
                                   lambda: s + w * ta.read(0))]

        return hf.while_loop(lambda i, s: i < 4, body, [0, w], **options)[1]

    check_gradient(build, normal(4, 2), normal(2), second=False)


def test_a_growing_array(options):
    def build(x):
        _, ta = hf.while_loop(lambda i, _: i < 3,
                              lambda i, ta: [i + 1, ta.write(i, x * hf.cast(i, hf.float64))],
                              [0, array(0, dynamic_size=True)], **options)
        return ta.stack()

    check_gradient(build, normal(2), second=False)


def test_only_some_elements_are_read(session, graph):
    x = hf.constant(normal(3, 2))
    y = array(3, clear_after_read=False).unstack(x).read(1)
    np.testing.assert_array_equal(session.run(hf.gradients(y, x)[0]), [[0, 0], [1, 1], [0, 0]])


def test_two_gradients_in_one_step(session, graph):
    x = hf.constant(normal(3, 2))
    ta = array(3, clear_after_read=False).unstack(x)
    first = hf.gradients(ta.read(0), x, name="first")[0]
    second = hf.gradients(ta.stack() * 2.0, x, name="other")[0]
    a, b = session.run([first, second])
    np.testing.assert_array_equal(a, [[1, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(b, np.full((3, 2), 2))


# ---------------------------------------------------------------- the array of gradients


def test_writes_are_added_up(session, graph):
    ta = array(3).unstack([[1.0], [2.0], [3.0]])
    grad = ta.grad("source", flow=ta.flow).write(0, [1.0]).write(0, [2.0])
    np.testing.assert_array_equal(session.run(grad.stack()), [[3], [0], [0]])


def test_arrays_of_different_sources(session, graph):
    ta = array(2).unstack([1.0, 2.0])
    a = ta.grad("a", flow=ta.flow).write(0, 5.0)
    b = ta.grad("b", flow=a.flow).write(0, 7.0)
    again = ta.grad("a", flow=b.flow).write(0, 1.0)
    assert session.run([again.read(0), b.read(0)]) == [6, 7]


def test_elements_without_gradient_are_zeros_of_their_shape(session, graph):
    ta = array(3, infer_shape=False).write(1, [1.0, 2.0])
    np.testing.assert_array_equal(session.run(ta.grad("a", flow=ta.flow).read(1)), [0, 0])
    with pytest.raises(errors.InvalidArgumentError, match="not fully defined"):
        session.run(ta.grad("a", flow=ta.flow).read(0))


def test_shapes_that_cannot_be_added(session, graph):
    ta = array(3, infer_shape=False).write(1, [1.0, 2.0])
    grad = ta.grad("a", flow=ta.flow).write(1, [3.0, 4.0]).write(1, [5.0])
    with pytest.raises(errors.InvalidArgumentError, match="Could not aggregate"):
        session.run(grad.read(1))


def test_the_array_cannot_grow_once_it_has_gradients(session, graph):
    ta = array(1, dynamic_size=True).write(0, 1.0)
    grad = ta.grad("a", flow=ta.flow)
    with hf.control_dependencies([grad.flow]):
        late = ta.write(5, 1.0)
    with pytest.raises(errors.InvalidArgumentError, match="not resizeable"):
        session.run(late.size())


def test_the_gradient_of_a_split_has_the_elements_of_the_split(session, graph):
    x = hf.constant([1.0, 2.0, 3.0], hf.float64)
    ta = array(3, dynamic_size=True).split(x, [1, 1, 1]).write(3, [4.0])
    grad, = hf.gradients(ta.concat() * [1.0, 2.0, 3.0, 4.0], [x])
    np.testing.assert_array_equal(session.run(grad), [1, 2, 3])
