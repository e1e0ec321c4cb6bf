"""Functions of modules of 1.x: rows that are replaced, kinds of control flow, strict constants."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.framework import constant_op
from hpcflow.python.ops import control_flow_util, inplace_ops, variables


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as made:
        yield made


def test_rows_of_a_copy():
    x = np.arange(6.0).reshape(3, 2)
    with hf.Session() as session:
        def value(tensor):
            return session.run(tensor).tolist()

        assert value(inplace_ops.inplace_update(x, -1, [9.0, 9.0])) == [[0, 1], [2, 3], [9, 9]]
        ones = np.ones((2, 2))
        assert value(inplace_ops.inplace_add(x, [0, 2], ones)) == [[1, 2], [2, 3], [5, 6]]
        assert value(inplace_ops.inplace_sub(x, None, x)) == [[0, 0]] * 3
        assert value(inplace_ops.empty_like(x)) == [[0, 0]] * 3
        for rows, new, message in (([[0]], [[1.0, 1.0]], "must be a vector"),
                                   ([0], [1.0], "x and v shape doesn't match"),
                                   ([0, 1], [[1.0, 1.0]], "i and x shape doesn't match")):
            with pytest.raises(hf.errors.InvalidArgumentError, match=message):
                value(inplace_ops.inplace_update(x, rows, new))


def test_kinds_of_switches_and_merges(graph):
    x = hf.placeholder(hf.int32, [])
    hf.cond(x < 5, lambda: x + 1, lambda: hf.while_loop(lambda i: i < 9, lambda i: i + 2, [x]))
    kinds = {op.name: (control_flow_util.IsCondSwitch(op), control_flow_util.IsLoopSwitch(op),
                       control_flow_util.IsCondMerge(op), control_flow_util.IsLoopMerge(op))
             for op in graph.get_operations() if op.type in ("Switch", "Merge")}
    assert all(sum(found) == 1 for found in kinds.values())
    loops = {name for name, found in kinds.items() if found[1] or found[3]}
    assert {name.rsplit("/", 1)[1].rstrip("_123") for name in loops} == {"Merge", "Switch"}


def test_constants_that_are_not_filled_up():
    assert constant_op.constant([7], shape=[3]).shape == [3]
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        constant_op.constant([1, 2], shape=[3])
    assert constant_op.constant_v1([1, 2], shape=[3]).shape == [3]


def test_definitions_of_variables_keep_how_they_are_shared(graph):
    made = hf.Variable(1.0, trainable=False, synchronization=hf.VariableSynchronization.NONE,
                       aggregation=variables.VariableAggregationV2.ONLY_FIRST_REPLICA)
    again = hf.Variable(variable_def=made.to_proto())
    assert not again.trainable
    assert again.synchronization == made.synchronization
    assert again.aggregation == made.aggregation


def test_initial_values_inside_of_a_loop_are_refused():
    def body(i):
        return i + hf.Variable(hf.zeros([], hf.int32)).read_value()

    with pytest.raises(ValueError, match="inside a control-flow"):
        hf.while_loop(lambda i: i < 3, body, [0])


def test_coordinates_of_a_variable_by_handle_read_no_more():
    table = hf.Variable(np.arange(6.0).reshape(3, 2), use_resource=True)
    found = hf.gather_nd(table, [[2, 0], [1, 1]])
    assert found.op.inputs[0].op.type == "ResourceGatherNd"
    (slope,) = hf.gradients(found, table)
    with hf.Session() as session:
        session.run(table.initializer)
        assert session.run(found).tolist() == [4, 3]
        assert session.run(slope).tolist() == [[0, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="only supports floating"):
        hf.nn.rnn_cell.BasicLSTMCell(2, dtype=hf.int32)
