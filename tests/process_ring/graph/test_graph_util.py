"""Tools on GraphDefs."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import graph_util
from hpcflow.graph.raw import raw_ops


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def model():
    x = hf.placeholder(hf.float32, [2], name="x")
    v = hf.Variable([1.0, 2.0], name="v")
    w = hf.Variable(10.0, name="w")
    y = hf.check_numerics(hf.identity(x) + v, "bad", name="checked")
    hf.identity(y * w, name="z")
    hf.identity(x, name="unused")


def names(graph_def):
    return [node.name for node in graph_def.node]


def test_a_part_of_a_graph(graph):
    model()
    graph_def = graph.as_graph_def()
    part = graph_util.extract_sub_graph(graph_def, ["checked"])
    assert names(part) == ["x", "v", "v/read", "Identity", "add", "checked"]
    assert part.versions == graph_def.versions
    with pytest.raises(AssertionError, match="absent is not in graph"):
        graph_util.extract_sub_graph(graph_def, ["x", "absent"])
    with pytest.raises(TypeError, match="list of names"):
        graph_util.extract_sub_graph(graph_def, "x")


def test_control_inputs_belong_to_the_part(graph):
    with hf.control_dependencies([hf.no_op(name="first")]):
        hf.no_op(name="second")
    assert names(graph_util.extract_sub_graph(graph.as_graph_def(), ["second"])) == [
        "first", "second"]


def test_variables_become_constants(graph):
    model()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        frozen = graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["z"])
    assert not any(node.op.startswith("Variable") for node in frozen.node)
    with hf.Graph().as_default():
        (z,) = hf.import_graph_def(frozen, return_elements=["z:0"], name="")
        with hf.Session() as session:
            assert session.run(z, {"x:0": [1.0, 1.0]}).tolist() == [20, 30]


def test_some_variables_stay(graph):
    model()
    graph_def = graph.as_graph_def()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())

        def left(**options):
            frozen = graph_util.convert_variables_to_constants(session, graph_def, ["z"], **options)
            return [node.name for node in frozen.node if node.op == "VariableV2"]

        assert left(variable_names_whitelist=["v"]) == ["w"]
        assert left(variable_names_blacklist=["v"]) == ["v"]
        assert left(variable_names_whitelist=[]) == ["v", "w"]


def test_resource_variables_become_constants(graph):
    handle = raw_ops.VarHandleOp(dtype=hf.float32, shape=[2], name="h")
    assign = raw_ops.AssignVariableOp(resource=handle, value=[3.0, 4.0])
    raw_ops.ReadVariableOp(resource=handle, dtype=hf.float32, name="read")
    with hf.Session() as session:
        session.run(assign)
        frozen = graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["read"])
    with hf.Graph().as_default(), hf.Session() as session:
        (read,) = hf.import_graph_def(frozen, return_elements=["read:0"])
        assert session.run(read).tolist() == [3, 4]


def test_training_nodes_are_bypassed(graph):
    model()
    with hf.control_dependencies(["unused"]):
        hf.no_op(name="last")
    slim = graph_util.remove_training_nodes(graph.as_graph_def())
    by_name = {node.name: node for node in slim.node}
    assert "checked" not in by_name
    assert "Identity" not in by_name
    assert "v/read" not in by_name
    assert list(by_name["add"].input) == ["x", "v"]
    assert list(by_name["z"].input) == ["mul"]
    assert "unused" in by_name
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(slim, name="")
        session.run(["v/Assign", "w/Assign"])
        np.testing.assert_array_equal(session.run("z:0", {"x:0": [0.0, 0.0]}), [10, 20])


def test_nothing_waits_for_removed_checks(graph):
    x = hf.placeholder(hf.float32, [], name="x")
    with hf.control_dependencies([hf.check_numerics(x, "no number", name="check")]):
        hf.add(hf.identity(x), 1.0, name="sum")
    slim = graph_util.remove_training_nodes(graph.as_graph_def())
    assert {n.name: list(n.input) for n in slim.node} == {
        "x": [], "sum/y": [], "sum": ["x", "sum/y"]}
    kept = graph_util.remove_training_nodes(graph.as_graph_def(), ["check"])
    assert "^check" in {n.name: n for n in kept.node}["Identity"].input


def test_comparisons_of_constants(graph):
    from hpcflow.python.framework import tensor_util

    x = hf.constant([1, 2])
    assert tensor_util.constant_value(hf.equal(x, [1, 3])).tolist() == [True, False]
    assert tensor_util.constant_value(hf.not_equal(x, 2)).tolist() == [True, False]
    assert tensor_util.constant_value(hf.equal(x, hf.placeholder(hf.int32, [2]))) is None


def test_what_must_run_on_a_cpu(graph):
    on_cpu = graph_util.must_run_on_cpu
    assert on_cpu(hf.constant(1).op)
    assert on_cpu(hf.constant("text").op.node_def)
    assert not on_cpu(hf.constant(1.0).op)
    assert on_cpu(hf.cast(hf.constant(1), hf.float32).op)
    assert not on_cpu(hf.cast(hf.constant(1.0), hf.int32).op)
    variable = hf.Variable(1.0).op
    assert not on_cpu(variable)
    assert on_cpu(variable, pin_variables_on_cpu=True)


def test_the_shape_of_an_input(graph):
    model()
    assert graph_util.tensor_shape_from_node_def_name(graph, "v").as_list() == [2]
    assert graph_util.tensor_shape_from_node_def_name(graph, "w:0").as_list() == []


def test_what_is_protected_and_other_helpers():
    with hf.Graph().as_default() as graph:
        hf.negative(hf.identity(hf.constant(1.0), name="keep"), name="out")
    definition = graph.as_graph_def()
    for protected, count in ((["keep"], 3), (None, 2)):
        assert len(graph_util.remove_training_nodes(definition, protected).node) == count
    assert graph_util.set_cpu0("/job:a/device:GPU:3") == "/job:a/device:CPU:0"


def test_helpers_of_the_framework_modules():
    from hpcflow.python.framework import ops, tensor_util

    proto = tensor_util.make_tensor_proto([[1, 2]])
    assert tensor_util.ShapeEquals(proto, [1, 2]) and not tensor_util.ShapeEquals(proto, [2])
    assert tensor_util.TensorShapeProtoToList(proto.tensor_shape) == [1, 2]
    with hf.Graph().as_default():
        slices = hf.IndexedSlices(hf.constant([1.0]), hf.constant([0]))
        values = ops.convert_n_to_tensor_or_indexed_slices([1, None, slices], name="v")
        assert values[0].op.name == "v_0" and values[1:] == [None, slices]


def test_what_others_are_colocated_with_is_no_training_node(graph):
    x = hf.constant(1.0, name="x")
    beside = hf.identity(x, name="beside")
    with hf.colocate_with(beside.op):
        hf.negative(beside, name="y")
    hf.negative(hf.identity(x, name="gone"), name="z")
    slim = graph_util.remove_training_nodes(graph.as_graph_def())
    assert names(slim) == ["x", "beside", "y", "z"]
    with hf.Graph().as_default(), hf.Session() as session:
        assert session.run(hf.import_graph_def(slim, return_elements=["y:0", "z:0"])) == [-1, -1]
