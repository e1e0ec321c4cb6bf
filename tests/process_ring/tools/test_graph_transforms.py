"""Transforms of GraphDefs: the graph gets smaller, and gives the same."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.tools import optimize_for_inference_lib
from hpcflow.tools.graph_transforms import TransformGraph

X = np.random.RandomState(1).rand(2, 6, 6, 2)


@pytest.fixture
def served():
    rng = np.random.RandomState(0)
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [None, 6, 6, 2], name="x")
        w = hf.constant(rng.rand(3, 3, 2, 4), hf.float32)
        y = hf.nn.conv2d(hf.identity(x, name="id"), w * 2.0, [1, 1, 1, 1], "SAME")
        y = hf.nn.fused_batch_norm(
            y, hf.constant([1.0, 2, 3, 4]), hf.constant([0.1, 0.2, 0.3, 0.4]),
            hf.constant([0.5] * 4), hf.constant([1.0, 2, 3, 4]), is_training=False)[0]
        y = hf.reshape(hf.nn.relu(y), [-1, 144])
        z = hf.matmul(y, hf.constant(rng.rand(144, 3), hf.float32)) * hf.constant([1.0, 2.0, 3.0])
        hf.identity(z, name="out")
        hf.add(z, 1.0, name="unused")
    return graph.as_graph_def()


def value(graph_def):
    with hf.Graph().as_default():
        hf.import_graph_def(graph_def, name="")
        with hf.Session() as session:
            return session.run("out:0", {"x:0": X})


@pytest.mark.parametrize(("transforms", "gone", "count"), [
    (["strip_unused_nodes"], "Add", 19),
    (["remove_nodes(op=Identity, op=CheckNumerics)"], None, 20),
    (["fold_constants(ignore_errors=true)"], None, 17),
    (["fold_constants", "fold_batch_norms"], "Mul", 15),
    (["fold_constants fold_old_batch_norms"], "FusedBatchNorm", 14),
    (["merge_duplicate_nodes"], None, 20),
    (["remove_device", "sort_by_execution_order"], None, 21),
])
def test_transforms_keep_the_values(served, transforms, gone, count):
    changed = TransformGraph(served, ["x"], ["out"], transforms)
    assert len(changed.node) == count
    assert gone not in {node.op for node in changed.node}
    np.testing.assert_allclose(value(changed), value(served), rtol=1e-5)


def test_inputs_become_placeholders(served):
    spec = 'strip_unused_nodes(type=float, shape="1,6,6,2")'
    changed = TransformGraph(served, ["id"], ["out"], [spec])
    nodes = {node.name: node for node in changed.node}
    assert nodes["id"].op == "Placeholder" and "x" not in nodes
    assert [d.size for d in nodes["id"].attr["shape"].shape.dim] == [1, 6, 6, 2]


def test_a_graph_is_made_ready_for_inference(served):
    changed = optimize_for_inference_lib.optimize_for_inference(
        served, ["x"], ["out"], hf.float32.as_datatype_enum)
    assert "unused" not in {node.name for node in changed.node}
    np.testing.assert_allclose(value(changed), value(served), rtol=1e-5)


def test_fields_of_nodes(served):
    changed = TransformGraph(served, [], ["out"], [
        "set_device(device=/cpu:0)", "rename_op(old_op_name=Relu, new_op_name=Relu6)",
        "rename_node(old_node_name=x, new_node_name=image)",
        "remove_attribute(attribute_name=T, op_name=Identity)"])
    nodes = {node.name: node for node in changed.node}
    assert {node.device for node in changed.node} == {"/cpu:0"}
    assert nodes["Relu"].op == "Relu6" and list(nodes["id"].input) == ["image"]
    assert "T" not in nodes["id"].attr and "T" in nodes["Relu"].attr


@pytest.mark.parametrize("spec", ["no_such_transform", "remove_nodes(op", "set_device(=)"])
def test_transforms_that_are_none(served, spec):
    with pytest.raises(ValueError, match=r"[Tt]ransform|parameter"):
        TransformGraph(served, ["x"], ["out"], [spec])


def test_weights_are_kept_as_8_bit_numbers(served):
    found = TransformGraph(served, ["x"], ["out"], [
        "fold_constants", "quantize_weights(minimum_size=64)", "obfuscate_names",
        "add_default_attributes"])
    kinds = [node.op for node in found.node]
    assert kinds.count("Dequantize") == 2 and found.ByteSize() < served.ByteSize()
    assert {n.name for n in found.node if not n.name.isdigit()} == {"x", "out"}
    product = next(n for n in found.node if n.op == "Conv2D")
    assert product.attr["dilations"].list.i == [1, 1, 1, 1]
    np.testing.assert_allclose(value(found), value(served), rtol=1e-2)
