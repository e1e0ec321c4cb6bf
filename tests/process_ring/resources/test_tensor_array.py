"""TensorArray: what is written is read; sizes, shapes, and what is refused."""

import numpy as np
import pytest
from fixtures import in_one_form

import hpcflow as hf
from hpcflow import errors, raw_ops
from hpcflow.resources import tensor_array

pytestmark = pytest.mark.usefixtures("form")


def array(size=3, dtype=hf.float32, **options):
    return hf.TensorArray(dtype, size, **options)


def after(first, build):
    with hf.control_dependencies([first]):
        return build()


# ---------------------------------------------------------------- values


def test_write_and_read(session, graph):
    ta = array().write(0, [1.0, 2.0]).write(2, [5.0, 6.0])
    read = ta.read(2)
    assert read.shape.as_list() == [2] and read.dtype is hf.float32
    np.testing.assert_array_equal(session.run(read), [5, 6])
    assert session.run(ta.size()) == 3


@pytest.mark.parametrize(("dtype", "values"), [
    (hf.float64, [1.5, 2.5]), (hf.int8, [1, -1]), (hf.bool, [True, False]),
    (hf.string, [b"a", b"bc"]), (hf.complex64, [1j, 2]),
])
def test_types(session, graph, dtype, values):
    ta = array(2, dtype).unstack(hf.constant(values, dtype))
    stacked = ta.stack()
    assert stacked.dtype is dtype
    assert session.run(stacked).tolist() == values
    assert session.run(array(2, dtype).write(1, hf.constant(values[1], dtype)).read(1)) == values[1]


def test_stack_and_unstack(session, graph):
    x = np.arange(12.0).reshape(3, 2, 2)
    ta = array(3, hf.float64).unstack(x)
    assert ta.element_shape.as_list() == [2, 2]
    np.testing.assert_array_equal(session.run(ta.stack()), x)
    fed = hf.placeholder(hf.float64, None)
    np.testing.assert_array_equal(
        session.run(array(3, hf.float64).unpack(fed).pack(), {fed: x}), x)


def test_gather_and_scatter(session, graph):
    ta = array(4).scatter([3, 1], [[1.0], [2.0]])
    gathered = ta.gather([1, 3])
    assert gathered.shape.as_list() == [2, 1]
    np.testing.assert_array_equal(session.run(gathered), [[2], [1]])
    assert session.run(array(3).unstack([1.0, 2.0, 3.0]).gather([])).shape == (0,)


def test_concat_and_split(session, graph):
    ta = array(3, infer_shape=False).split([[1.0], [2.0], [3.0]], [1, 0, 2])
    np.testing.assert_array_equal(session.run(ta.concat()), [[1], [2], [3]])
    np.testing.assert_array_equal(session.run(ta.read(2)), [[2], [3]])
    even = array(2).split([1.0, 2.0, 3.0, 4.0], [2, 2])
    assert even.read(0).shape.as_list() == [2] and even.concat().shape.as_list() == [None]


def test_values_are_not_copied_nor_changed(session, graph):
    x = hf.placeholder(hf.float32, [2, 2])
    fed = np.ones((2, 2), np.float32)
    ta = array(2, clear_after_read=False).unstack(x)
    result = session.run([ta.read(0) + 1, ta.stack() * 2], {x: fed})
    np.testing.assert_array_equal(result[0], [2, 2])
    np.testing.assert_array_equal(fed, np.ones((2, 2)))


def test_elements_never_written_are_zeros_where_the_shape_is_known(session, graph):
    np.testing.assert_array_equal(session.run(array(element_shape=[2]).read(0)), [0, 0])
    np.testing.assert_array_equal(session.run(array().write(1, 7.0).stack()), [0, 7, 0])
    with pytest.raises(errors.InvalidArgumentError, match="element shape is not fully defined"):
        session.run(array().read(0))


def test_dynamic_size(session, graph):
    ta = array(0, dynamic_size=True).write(2, 1.0)
    assert session.run(ta.size()) == 3
    np.testing.assert_array_equal(session.run(ta.stack()), [0, 0, 1])
    np.testing.assert_array_equal(
        session.run(array(1, dynamic_size=True).unstack([1.0, 2.0]).stack()), [1, 2])


def test_no_elements(session, graph):
    assert session.run(array(0, element_shape=[2, 3]).stack()).shape == (0, 2, 3)
    assert session.run(array(0, element_shape=[None, 3]).concat()).shape == (0, 3)
    for build in (lambda: array(0).stack(), lambda: array(0).concat()):
        with pytest.raises(errors.UnimplementedError, match="size zero"):
            session.run(build())


def test_identity_comes_after_control_dependencies(session, graph):
    v = hf.Variable(0)
    session.run(v.initializer)
    ta = array().write(0, 1.0)
    with hf.control_dependencies([hf.assign_add(v, 1)]):
        ta = ta.identity()
    assert session.run(ta.read(0)) == 1 and session.run(v) == 1


def test_the_class_around_an_existing_array(session, graph):
    made = array().write(0, 4.0)
    same = hf.TensorArray(hf.float32, handle=made.handle, flow=made.flow)
    assert session.run(same.read(0)) == 4


# ---------------------------------------------------------------- in loops and branches


@pytest.mark.parametrize("parallel", [1, 10])
def test_filled_in_a_loop(session, graph, parallel):
    def body(i, ta):
        return i + 1, ta.write(i, hf.to_float(i) * [1.0, 2.0])

    _, ta = hf.while_loop(lambda i, _: i < 5, body, (0, array(5)), parallel_iterations=parallel)
    assert isinstance(ta, hf.TensorArray) and ta.element_shape.as_list() == [2]
    np.testing.assert_array_equal(session.run(ta.stack())[:, 1], [0, 2, 4, 6, 8])


def test_read_and_written_in_nested_loops(session, graph):
    source = array(3, hf.int32, clear_after_read=False).unstack([2, 3, 4])

    def inner(i):
        return hf.while_loop(lambda j, t: j < source.read(i), lambda j, t: [j + 1, t + j],
                             [0, 0])[1]

    _, ta = hf.while_loop(lambda i, _: i < 3, lambda i, ta: [i + 1, ta.write(i, inner(i))],
                          [0, array(3, hf.int32)])
    assert session.run(ta.stack()).tolist() == [1, 3, 6]


def test_an_array_of_every_iteration(session, graph):
    def body(i, total):
        ta = array(2, hf.int32).write(0, i).write(1, i * i)
        return [i + 1, total + hf.reduce_sum(ta.stack())]

    assert session.run(hf.while_loop(lambda i, t: i < 5, body, [0, 0])[1]) == 10 + 30


def test_in_a_conditional(session, graph):
    p = hf.placeholder(hf.bool, [])
    start = array(2).write(0, 1.0)
    ta = hf.cond(p, lambda: start.write(1, 2.0), lambda: start.write(1, 3.0))
    assert isinstance(ta, hf.TensorArray)
    assert [session.run(ta.stack(), {p: v}).tolist() for v in (True, False)] == [[1, 2], [1, 3]]


def test_written_in_one_branch_only(session, graph):
    def body(i, ta):
        return [i + 1, hf.cond(hf.equal(i % 2, 0), lambda: ta.write(i, i), lambda: ta)]

    _, ta = hf.while_loop(lambda i, _: i < 4, body, [0, array(4, hf.int32, element_shape=[])])
    assert session.run(ta.stack()).tolist() == [0, 0, 2, 0]


# ---------------------------------------------------------------- old versions


def test_handles_by_reference(session, graph):
    handle = raw_ops.TensorArray(size=2, dtype=hf.float32)
    flow = raw_ops.TensorArrayWrite(handle=handle, index=0, value=2.0, flow_in=0.0)
    flow = raw_ops.TensorArrayWrite(handle=handle, index=1, value=3.0, flow_in=flow)
    packed = raw_ops.TensorArrayPack(handle=handle, flow_in=flow, dtype=hf.float32)
    assert session.run(packed).tolist() == [2, 3]
    flow = raw_ops.TensorArrayUnpack(handle=handle, value=[5.0, 6.0], flow_in=0.0)
    total = raw_ops.TensorArrayConcat(
        handle=raw_ops.TensorArrayGrad(handle=handle, flow_in=flow, source="a"), flow_in=flow,
        dtype=hf.float32)
    with pytest.raises(errors.InvalidArgumentError, match="scalar shape"):
        session.run(total)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_every_version(session, graph, version):
    def op(name):
        return getattr(raw_ops, f"TensorArray{name}{version}")

    made = op("")(size=3, dtype=hf.int32)
    handle = made[0] if version == "V3" else made
    flow = op("Scatter")(handle=handle, indices=[0, 2], value=[7, 9], flow_in=0.0)
    flow = op("Write")(handle=handle, index=1, value=8, flow_in=flow)
    gathered = op("Gather")(handle=handle, indices=[2, 1], flow_in=flow, dtype=hf.int32)
    with hf.control_dependencies([gathered]):
        size = op("Size")(handle=handle, flow_in=flow)
        read = op("Read")(handle=handle, index=0, flow_in=flow, dtype=hf.int32)
    with hf.control_dependencies([read, size]):
        close = op("Close")(handle=handle)
    assert [v if v is None else v.tolist() for v in session.run([gathered, size, read, close])] == [
        [9, 8], 3, 7, None]
    made = op("")(size=2, dtype=hf.int32)
    handle = made[0] if version == "V3" else made
    flow = op("Split")(handle=handle, value=[1, 2, 3], lengths=hf.constant([1, 2], hf.int64),
                       flow_in=0.0)
    value, lengths = op("Concat")(handle=handle, flow_in=flow, dtype=hf.int32)
    assert [v.tolist() for v in session.run([value, lengths])] == [[1, 2, 3], [1, 2]]


# ---------------------------------------------------------------- errors in a step


def read_twice(**options):
    ta = array(**options).write(0, 1.0)
    return after(ta.read(0), lambda: ta.read(0))


def write_after_read(**options):
    ta = array(**options).write(0, 1.0)
    return after(ta.read(0), lambda: ta.write(0, 2.0).read(0))


def read_closed():
    ta = array().write(0, 1.0)
    return after(ta.close(), lambda: ta.read(0))


def other_shapes(build):
    return lambda: build(array(2, infer_shape=False).write(0, [[1.0]]).write(1, [[1.0, 2.0]]))


@pytest.mark.parametrize(("build", "message"), [
    (lambda: array().read(3), "read from index 3 but array size is: 3"),
    (lambda: array().read(-1), "read from index -1"),
    (lambda: array().write(3, 1.0).read(3), "write to index 3 but array is not resizeable"),
    (lambda: array(dynamic_size=True).write(-1, 1.0).read(0), "write to index -1"),
    (lambda: array().write(0, 1.0).write(0, 2.0).read(0), "already been written to"),
    (read_twice, "index 0 twice because it was cleared"),
    (write_after_read, "already been read"),
    (lambda: write_after_read(clear_after_read=False), "already been read"),
    (read_closed, "already been closed"),
    (lambda: array(-1).size(), "at least 0, but is -1"),
    (other_shapes(lambda ta: ta.stack()), r"Index 0 has shape: \[1,1\] but index 1 .* \[1,2\]"),
    (other_shapes(lambda ta: ta.concat()), r"excepting dimension 0\) shape: \[1\]"),
    (lambda: array().unstack([1.0, 2.0, 3.0]).gather([3]), "read from index 3"),
    (lambda: array(2).unstack([1.0, 2.0, 3.0]).size(), r"must be < array size \(2 vs. 2\)"),
    (lambda: array(3).split([1.0, 2.0], [1, 2]).size(), "sum of lengths is 3"),
    (lambda: array(3).split([1.0, 2.0, 3.0], [1, 2]).size(), r"size of lengths \(3 vs. 2\)"),
    (lambda: array(2).split(1.0, [1, 2]).size(), "at least a vector"),
    (lambda: raw_ops.TensorArrayReadV3(handle=array().handle, index=0, flow_in=0.0,
                                       dtype=hf.int32), "Op requested dtype int32"),
    (lambda: raw_ops.TensorArrayWriteV3(handle=array().handle, index=0, flow_in=0.0, value=1),
     "trying to write dtype int32"),
])
def test_errors(session, graph, build, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        session.run(build())


def test_what_is_allowed_to_be_read_twice(session, graph):
    assert session.run(read_twice(clear_after_read=False)) == 1


def test_shapes_that_turn_out_to_differ(session, graph):
    x = hf.placeholder(hf.float32, None)
    written = array().write(0, x).write(1, hf.zeros([2]))
    assert session.run(written.size(), {x: [1, 2]}) == 3
    with pytest.raises(errors.InvalidArgumentError, match="inferred element shape"):
        session.run(written.size(), {x: [1]})


# ---------------------------------------------------------------- errors in the program


@in_one_form
@pytest.mark.parametrize(("build", "error", "message"), [
    (lambda: hf.TensorArray(hf.float32), ValueError, "size must be given"),
    (lambda: hf.TensorArray(hf.float32, 3, handle=array().handle), ValueError, "handle and size"),
    (lambda: hf.TensorArray(hf.float32, dynamic_size=True, handle=array().handle), ValueError,
     "handle and dynamic_size"),
    (lambda: hf.TensorArray(hf.float32, clear_after_read=True, handle=array().handle), ValueError,
     "handle and clear_after_read"),
    (lambda: hf.TensorArray(hf.float32, tensor_array_name="a", handle=array().handle), ValueError,
     "handle and tensor_array_name"),
    (lambda: hf.TensorArray(hf.float32, handle=3), TypeError, "must be a tensor"),
    (lambda: array().write(0, hf.constant(1)), TypeError, "elements are float32"),
    (lambda: array().write(0, [1.0]).write(1, [1.0, 2.0]), ValueError, "inconsistent shapes"),
    (lambda: array(element_shape=[3]).write(0, [1.0]), ValueError, "inconsistent shapes"),
    (lambda: array().write(0, 1.0).concat(), ValueError, "use stack"),
    (lambda: array([1]), ValueError, "rank 0"),
    (lambda: array().read([0]), ValueError, "rank 0"),
    (lambda: array().scatter([0, 1, 2], [[1.0], [2.0]]), ValueError, "not compatible"),
])
def test_wrong_use(graph, build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_python_numbers_take_the_type_of_the_elements(session, graph):
    assert session.run(array().write(0, 1).read(0)) == np.float32(1)


def test_declared_elements_may_differ_where_they_are_not_inferred(session, graph):
    ta = hf.TensorArray(hf.float32, 2, infer_shape=False, element_shape=[None, 2])
    ta = ta.write(0, hf.ones([1, 2])).write(1, hf.ones([3, 2]))
    assert session.run(ta.concat()).shape == (4, 2)
    with pytest.raises(ValueError, match="inconsistent"):
        ta.write(1, hf.ones([1, 3]))


def test_messages_tell_arrays_of_one_name_apart(session, graph):
    flow = hf.TensorArray(hf.float32, 1, tensor_array_name="a").write(0, 1.0).write(0, 2.0).flow
    with pytest.raises(errors.InvalidArgumentError, match=r"TensorArray a_\d+: Could not write"):
        session.run(flow)


def test_arrays_of_another_type_are_converted(session):
    rows = np.arange(6.0).reshape(3, 2)
    given = hf.TensorArray(hf.float32, 3).unstack(rows).stack()
    written = hf.TensorArray(hf.float32, 1).write(0, rows[1]).stack()
    assert given.dtype == written.dtype == hf.float32
    first, second = session.run([given, written])
    np.testing.assert_array_equal(first, rows)
    np.testing.assert_array_equal(second, rows[1:2])


def _array(**options):
    return tensor_array.TensorArray("a", hf.float32, 5, (None,), np.zeros, **options)


def _content(array):
    return [list(array.states), array.shapes, array.dims, array.whole is None,
            [None if v is None else v.tolist() for v in array.values]]


@pytest.mark.parametrize("options", [{}, {"clear_after_read": False}, {"identical": True},
                                     {"is_gradient": True}])
@pytest.mark.parametrize("count", [3, 5])
def test_rows_at_once_leave_what_one_after_the_other_do(options, count):
    rows = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2)
    one, other = _array(**options), _array(**options)
    one.write_rows([*range(count)], rows)
    for place, row in enumerate(rows):
        other.write(place, row)
    other.whole = one.whole
    assert _content(one) == _content(other)
    one.take_rows(1, count - 1)
    for index in range(1, count):
        other.read(index)
    assert _content(one) == _content(other)
    if one.clear_after_read:
        with pytest.raises(errors.InvalidArgumentError, match="index 1 twice"):
            one.read(1)


def test_rows_at_once_are_checked_like_others():
    array = _array()
    with pytest.raises(errors.InvalidArgumentError, match="index 0 because the value shape"):
        array.write_rows([0, 1], np.zeros((2, 2, 2), np.float32))
    array.write_rows([0, 1], np.zeros((2, 2), np.float32))
    with pytest.raises(errors.InvalidArgumentError, match=r"index 0.*already been written"):
        array.write_rows([0, 1], np.zeros((2, 2), np.float32))
    array.close()
    with pytest.raises(errors.InvalidArgumentError, match="closed"):
        array.write_rows([0], np.zeros((1, 2), np.float32))
