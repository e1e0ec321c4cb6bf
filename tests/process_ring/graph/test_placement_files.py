"""Devices replaced on import: by functions, dicts and placement files."""

import pytest

import hpcflow as hf
from hpcflow.framework import function


def model():
    """A GraphDef with devices, also inside a function."""
    with hf.Graph().as_default() as graph:
        with hf.device("/job:old/task:3"):
            x = hf.placeholder(hf.float32, [2, 2], name="x")
            with hf.name_scope("layer"):
                w = hf.Variable(hf.ones([2, 2]), name="w")
                y = hf.matmul(x, w, name="product")

        @function.Defun(hf.float32)
        def inside(v):
            with hf.device("/device:GPU:1"):
                return hf.identity(v, name="kept")

        hf.identity(inside(y), name="y")
        return graph.as_graph_def()


def devices(proto):
    return {n.name: n.device for n in proto.node}


def test_by_a_file(tmp_path):
    path = tmp_path / "placement"
    path.write_text("# who goes where\n"
                    "layer/w.*   /job:ps/task:0   # the variable\n\n"
                    "op:MatMul   /cpu:0\n"
                    "y           -\n")
    proto = model()
    placed = devices(hf.graph_util.replace_devices(proto, str(path)))
    assert placed["layer/w"] == placed["layer/w/Assign"] == "/job:ps/task:0"
    assert placed["layer/product"] == "/device:CPU:0" and placed["y"] == ""
    assert placed["x"] == devices(proto)["x"] == "/job:old/task:3"  # no rule: as it was


def test_by_a_dict_and_by_a_function():
    placed = hf.graph_util.replace_devices(model(), {".*": "/job:new"})
    assert set(devices(placed).values()) == {"/job:new"}
    assert [n.device for n in placed.library.function[0].node_def] == ["/job:new"]
    chosen = hf.graph_util.replace_devices(
        model(), lambda node: node.device.replace("old", "other") if node.device else None)
    assert devices(chosen)["x"] == "/job:other/task:3" and devices(chosen)["y"] == ""


def test_what_was_written_can_be_read(tmp_path):
    path = str(tmp_path / "placement")
    hf.graph_util.write_placement(model(), path)
    cleared = hf.graph_util.replace_devices(model(), lambda node: "")
    assert set(devices(cleared).values()) == {""}
    assert devices(hf.graph_util.replace_devices(cleared, path)) == devices(model())


def test_a_meta_graph_runs_elsewhere(tmp_path):
    """Trained for one cluster, restored on one process by another placement."""
    with hf.Graph().as_default():
        with hf.device("/job:ps/task:7"):
            v = hf.Variable(3.0, name="v")
            hf.identity(v * 2.0, name="y")
        hf.train.export_meta_graph(str(tmp_path / "m"))
    for options in ({"clear_devices": True}, {"placement": {".*": "/cpu:0"}}):
        with hf.Graph().as_default() as graph, hf.Session() as session:
            hf.train.import_meta_graph(str(tmp_path / "m"), **options)
            session.run(hf.global_variables_initializer())
            assert session.run("y:0") == 6
            wanted = "" if "clear_devices" in options else "/device:CPU:0"
            assert {op.device for op in graph.get_operations()
                    if not op.name.startswith("save")} - {""} == {wanted} - {""}


@pytest.mark.parametrize(("text", "message"), [
    ("a b c", "placement:1: expected a pattern and a device"),
    ("\n(   /cpu:0", "placement:2: .* no regular expression"),
    (".*  /job:a/job:b", "placement:1: .*Cannot specify multiple jobs")])
def test_files_that_are_wrong(tmp_path, text, message):
    path = tmp_path / "placement"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        hf.graph_util.replace_devices(model(), path)


def test_placements_that_are_none():
    with pytest.raises(TypeError, match="a file, a dict or a function"):
        hf.graph_util.replace_devices(model(), 3)
    with pytest.raises(ValueError, match="node 'x': "):
        hf.graph_util.replace_devices(model(), lambda node: "/job:a/job:b")
    with pytest.raises(OSError, match="nowhere"):
        hf.graph_util.replace_devices(model(), "/nowhere")
