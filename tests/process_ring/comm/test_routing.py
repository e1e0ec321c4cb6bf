"""The primitives of control flow by hand: of values, variables, slices; their errors."""

import numpy as np
import pytest
from running import timed_out

import hpcflow as hf
from hpcflow.python.ops import control_flow_ops as flow


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def test_slices_go_through_switch_and_merge():
    slices = hf.IndexedSlices(hf.constant([7.0, 8.0]), hf.constant([2, 5]))
    alive = flow.switch(slices, hf.placeholder_with_default(False, []))
    merged, which = flow.merge(alive)
    with hf.Session() as session:
        value, position = session.run([merged, which])
        assert (value.values.tolist(), value.indices.tolist(), position) == ([7, 8], [2, 5], 0)


def test_a_tensor_becomes_slices_to_be_merged_with_slices():
    pred = hf.placeholder(hf.bool, [])
    rows = flow.switch(hf.constant([[1.0, 2.0], [3.0, 4.0]]), pred)[1]
    slices = flow.switch(hf.IndexedSlices(hf.constant([[9.0, 9.0]]), hf.constant([1], hf.int64)),
                         pred)[0]
    merged, _ = flow.merge([rows, slices])
    assert isinstance(merged, hf.IndexedSlices) and merged.indices.dtype == hf.int64
    with hf.Session() as session:
        assert session.run(merged, {pred: True}).indices.tolist() == [0, 1]
        assert session.run(merged, {pred: False}).indices.tolist() == [1]


def test_a_missing_input_of_merge():
    with pytest.raises(ValueError, match="merge inputs is None"):
        flow.merge([hf.constant(1), None])


def test_a_variable_stays_a_reference():
    v = hf.Variable(3)
    assigned = hf.assign(flow._SwitchRefOrTensor(v._ref(), hf.constant(True))[1], 4)
    entered = flow._Enter(v._ref(), "by_hand", is_constant=True)
    inside = hf.assign(entered, flow.enter(hf.constant(5), "by_hand"))
    left = flow.exit(flow.with_dependencies([inside], entered))
    with hf.Session() as session:
        session.run(v.initializer)
        assert session.run(assigned) == 4
        assert session.run(left) == 5
        assert session.run(v) == 5
        assert session.run(flow._Identity(v._ref())) == 5


def test_into_the_next_iteration_and_out():
    data = hf.constant([1, 2])
    left = flow.exit(flow.next_iteration(flow.enter(data, "once")))
    with hf.Session() as session:
        assert session.run(left).tolist() == [1, 2]


def test_a_variable_is_read_after_the_dependencies():
    v, flag = hf.Variable(-1), hf.placeholder(hf.bool, [])

    def assign():
        return flow.with_dependencies([hf.assign(v, 2)], v)

    result = hf.cond(flag, assign, lambda: hf.constant(0))
    with hf.Session() as session:
        session.run(v.initializer)
        assert session.run(result, {flag: False}) == 0
        assert session.run(v) == -1
        assert session.run(result, {flag: True}) == 2


def test_groups_of_nests():
    a, b = hf.Variable(1), hf.Variable(2)
    with hf.Session() as session:
        session.run(hf.group([a.initializer, [b.initializer]]))
        assert session.run([a, b]) == [1, 2]


def test_indices_of_branches_become_int64():
    def slices(dtype):
        return lambda: hf.IndexedSlices(hf.constant([1.0]), hf.constant([3], dtype))

    result = hf.cond(hf.placeholder_with_default(True, []), slices(hf.int32), slices(hf.int64))
    with hf.Session() as session:
        value = session.run(result)
        assert value.indices.dtype == np.int64 and value.indices.tolist() == [3]


def test_contexts_as_protobufs():
    from hpcflow.core.protobuf import control_flow_pb2

    hf.cond(hf.placeholder(hf.bool, []), lambda: hf.constant(1), lambda: hf.constant(2))
    hf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="count")
    [branch, _] = hf.get_collection(hf.GraphKeys.COND_CONTEXT)
    [loop] = hf.get_collection(hf.GraphKeys.WHILE_CONTEXT)
    assert isinstance(branch.to_proto(), control_flow_pb2.CondContextDef)
    assert flow.CondContext.from_proto(branch.to_proto()) is branch
    assert flow.WhileContext.from_proto(loop.to_proto()) is loop


@pytest.mark.parametrize("options, message", [
    ({"maximum_iterations": [1, 2]}, "must be a scalar"),
    ({"shape_invariants": [hf.TensorShape([3])]}, "not compatible with the initial shape"),
])
def test_what_a_loop_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        hf.while_loop(lambda i: i < 3, lambda i: i + 1, [hf.constant(0)], **options)


def test_a_shape_that_changes():
    with pytest.raises(ValueError, match="is not an invariant for the loop"):
        hf.while_loop(lambda x: hf.size(x) < 9, lambda x: hf.concat([x, x], 0), [hf.zeros([2])])


def test_the_shape_of_a_sparse_variable():
    sparse = hf.SparseTensor([[0]], [1.0], [10])
    with pytest.raises(ValueError, match="not compatible"):
        hf.while_loop(lambda x: False, lambda x: x, [sparse], [hf.TensorShape([5])])


def test_errors_of_steps():
    first, second = hf.placeholder_with_default(True, []), hf.placeholder_with_default(True, [])
    both = hf.case([(first, lambda: 1), (second, lambda: 2)], lambda: 3, exclusive=True)
    dead = hf.identity(flow.switch(1.0, first)[0])
    queue = hf.FIFOQueue(1, hf.int32)
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match="Input error: More than one"):
            session.run(both)
        with pytest.raises(hf.errors.InvalidArgumentError,
                           match=r"Retval\[1\] does not have value"):
            session.run([first, dead])
        timed_out(session, queue.dequeue(), "Timed out waiting for notification")
