"""Tools of GraphDefs and SavedModels by the paths that programs of 1.x import them from."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.core.framework import attr_value_pb2, tensor_shape_pb2
from hpcflow.core.protobuf import device_properties_pb2
from hpcflow.python.debug.wrappers import local_cli_wrapper
from hpcflow.python.grappler import cluster, tf_optimizer
from hpcflow.python.platform import flags
from hpcflow.python.saved_model import load, save
from hpcflow.python.tools import saved_model_utils, strip_unused_lib


@pytest.fixture
def graph():
    with hf.Graph().as_default() as graph:
        x = hf.placeholder(hf.float32, [2], name="x")
        twice = hf.constant([1.0, 2.0], name="c") * 2.0
        checked = hf.check_numerics(x + twice, "bad", name="check")
        with hf.control_dependencies([hf.Assert(hf.reduce_all(x > 0), [x], name="assert")]):
            hf.multiply(checked, checked + twice, name="out")
        hf.add(x, 1.0, name="unused")
    return graph


def optimized(graph, *optimizers):
    meta = hf.train.export_meta_graph(graph=graph)
    config = hf.ConfigProto()
    config.graph_options.rewrite_options.optimizers[:] = optimizers
    return tf_optimizer.OptimizeGraph(config, meta)


def test_a_graph_is_optimized_by_the_names_of_a_config(graph):
    with pytest.raises(ValueError, match="nothing is to be kept"):
        optimized(graph, "pruning")
    graph.add_to_collection("train_op", graph.get_operation_by_name("out"))
    everything = [node.name for node in graph.as_graph_def().node]
    pruned = {node.name for node in optimized(graph, "pruning").node}
    assert set(everything) - pruned == {"unused", "unused/y"}
    folded = optimized(graph, "constfold", "remap", "dependency", "debug_stripper")
    kinds = {node.name: node.op for node in folded.node}
    assert kinds["mul"] == "Const" and "c" not in kinds
    assert not {"CheckNumerics", "Assert"} & set(kinds.values())
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(folded, name="")
        np.testing.assert_allclose(session.run("out:0", {"x:0": [-1.0, 1.0]}), [3.0, 45.0])
    with pytest.raises(ValueError, match="no optimizer 'unheard'"):
        optimized(graph, "unheard")
    with pytest.raises(TypeError, match="ConfigProto"):
        tf_optimizer.OptimizeGraph(folded, hf.train.export_meta_graph(graph=graph))


def test_clusters_are_lists_of_devices():
    device = device_properties_pb2.NamedDevice(name="/GPU:0")
    device.properties.environment["architecture"] = "4"
    assert cluster.Cluster(devices=[device]).ListDevices() == [device]
    own = cluster.Cluster()
    assert own.ListDevices()[0].properties.type == "CPU" and "MatMul" in own.ListAvailableOps()
    own.Shutdown()
    assert own.ListDevices() == []


def test_metagraphs_are_found_by_their_tags(tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [2])
        hf.get_variable("v", initializer=1.0)
        session.run(hf.global_variables_initializer())
        hf.saved_model.simple_save(session, str(tmp_path / "model"), {"x": x}, {"y": x + 1.0})
    path = str(tmp_path / "model")
    assert saved_model_utils.get_saved_model_tag_sets(path) == [["serve"]]
    meta = saved_model_utils.get_meta_graph_def(path, "serve")
    assert list(meta.signature_def) == ["serving_default"]
    with pytest.raises(RuntimeError, match="tag-set train"):
        saved_model_utils.get_meta_graph_def(path, "train")


def test_a_file_is_stripped(graph, tmp_path, capsys):
    (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
    strip_unused_lib.strip_unused_from_files(
        str(tmp_path / "graph.pbtxt"), False, str(tmp_path / "graph.pb"), True, "check", "out",
        hf.float32.as_datatype_enum)
    found = hf.GraphDef.FromString((tmp_path / "graph.pb").read_bytes())
    assert capsys.readouterr().out == f"{len(found.node)} ops in the final graph.\n"
    assert {n.name: n.op for n in found.node}["check"] == "Placeholder"
    assert strip_unused_lib.strip_unused_from_files("missing", True, "", True, "", "", 1) == -1


def test_names_that_programs_import():
    assert flags.BooleanParser().parse("T") and not flags.BooleanParser().parse("false")
    with pytest.raises(ValueError, match="Non-boolean"):
        flags.BooleanParser().parse("yes")
    with pytest.raises(hf.errors.UnimplementedError):
        local_cli_wrapper.LocalCLIDebugWrapperSession(None)
    assert not hasattr(load, "load") and not hasattr(save, "save")
    imported = attr_value_pb2.tensorflow_dot_core_dot_framework_dot_tensor__shape__pb2
    assert imported.TensorShapeProto is tensor_shape_pb2.TensorShapeProto
