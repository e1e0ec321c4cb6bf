"""Tools on checkpoints: freezing a graph with one, printing one, and what the projector shows."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.tensorboard.plugins import projector
from hpcflow.python.framework import function
from hpcflow.python.tools import freeze_graph, inspect_checkpoint
from hpcflow.tools import freeze_graph as command


@pytest.fixture
def trained(tmp_path, session):
    """The folder of a graph, as text and as binary, with a checkpoint and its MetaGraph."""
    x = hf.placeholder(hf.float32, [2], name="x")
    with hf.device("/cpu:0"):
        v = hf.Variable([1.0, 2.0], name="v")
    w = hf.get_variable("w", initializer=10.0, use_resource=True)
    hf.identity((x + v) * w, name="z")
    other = hf.Variable(5, name="other")
    session.run(hf.global_variables_initializer())
    session.run([v.assign([3.0, 4.0]), other.assign(6)])
    path = hf.train.Saver().save(session, str(tmp_path / "model"))
    graph_def = hf.get_default_graph().as_graph_def()
    hf.train.write_graph(graph_def, str(tmp_path), "graph.pbtxt")
    hf.train.write_graph(graph_def, str(tmp_path), "graph.pb", as_text=False)
    return tmp_path, path


def result_of(graph_def):
    assert not any(n.op in ("Variable", "VariableV2", "VarHandleOp") for n in graph_def.node)
    with hf.Graph().as_default(), hf.Session() as session:
        z, = hf.import_graph_def(graph_def, return_elements=["z:0"], name="")
        return session.run(z, {"x:0": [1.0, 2.0]}).tolist()


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_a_graph_with_a_checkpoint(trained, binary, clear):
    folder, path = trained
    output = str(folder / "frozen.pb")
    found = freeze_graph.freeze_graph(
        str(folder / ("graph.pb" if binary else "graph.pbtxt")), "", binary, path, "z",
        "save/restore_all", "save/Const:0", output, clear, "")
    assert result_of(found) == [40.0, 60.0]
    assert any(n.device for n in found.node) != clear
    assert "other" not in [n.name for n in found.node]
    written = hf.GraphDef()
    written.ParseFromString((folder / "frozen.pb").read_bytes())
    assert written == found


def test_a_meta_graph_with_its_saver(trained):
    _, path = trained
    found = freeze_graph.freeze_graph(None, None, True, path, "z", None, None, None, True, "",
                                      input_meta_graph=path + ".meta")
    assert result_of(found) == [40.0, 60.0]


def test_messages_instead_of_files(trained):
    folder, path = trained
    graph_def, meta_graph = hf.GraphDef(), hf.MetaGraphDef()
    graph_def.ParseFromString((folder / "graph.pb").read_bytes())
    with open(path + ".meta", "rb") as file:
        meta_graph.ParseFromString(file.read())
    for graph, saver, meta in ((graph_def, None, None), (graph_def, meta_graph.saver_def, None),
                               (None, None, meta_graph)):
        found = freeze_graph.freeze_graph_with_def_protos(
            graph, saver, path, "z", "save/restore_all", "save/Const:0", "", True, "",
            input_meta_graph_def=meta)
        assert result_of(found) == [40.0, 60.0]


def test_operations_after_restoring(trained):
    folder, path = trained
    found = freeze_graph.freeze_graph(str(folder / "graph.pb"), None, True, path, "z", None, None,
                                      None, True, "v/Assign")
    assert result_of(found) == [40.0 / 2, 40.0]


def test_only_some_variables(trained):
    folder, path = trained
    found = freeze_graph.freeze_graph(str(folder / "graph.pb"), None, True, path, "z,other", None,
                                      None, None, True, "", variable_names_blacklist="other")
    kinds = {n.name: n.op for n in found.node}
    assert kinds["v"] == "Const" and kinds["other"] in ("Variable", "VariableV2")


def test_the_command(trained, capsys):
    folder, path = trained
    assert command.main([f"--input_graph={folder}/graph.pbtxt", f"--input_checkpoint={path}",
                         f"--output_graph={folder}/out.pb", "--output_node_names=z"]) == 0
    written = hf.GraphDef()
    written.ParseFromString((folder / "out.pb").read_bytes())
    assert result_of(written) == [40.0, 60.0]
    assert f"{len(written.node)} ops in the final graph" in capsys.readouterr().out


def test_what_cannot_be_frozen(tmp_path):
    missing = str(tmp_path / "absent")
    with pytest.raises(ValueError, match="output_node_names"):
        freeze_graph.freeze_graph(missing, "", True, missing, "", "", "", "", True, "")
    with pytest.raises(ValueError, match="input_checkpoint"):
        freeze_graph.freeze_graph(missing, "", True, "", "z", "", "", "", True, "")
    with pytest.raises(hf.errors.NotFoundError):
        freeze_graph.freeze_graph(missing, "", True, missing, "z", "", "", "", True, "")


def test_printed_checkpoints(trained, capsys):
    _, path = trained

    def printed(*arguments):
        inspect_checkpoint.print_tensors_in_checkpoint_file(path, *arguments)
        return capsys.readouterr().out

    assert printed("v", False) == "tensor_name:  v\n[3. 4.]\n"
    assert printed("", False).splitlines() == ["other (DT_INT32) []", "v (DT_FLOAT) [2]",
                                               "w (DT_FLOAT) []"]
    assert printed(None, False, True).split() == ["tensor_name:", "other", "tensor_name:", "v",
                                                  "tensor_name:", "w"]
    assert printed(None, True).splitlines()[:4] == ["tensor_name:  other", "6",
                                                    "tensor_name:  v", "[3. 4.]"]
    with pytest.raises(hf.errors.NotFoundError, match="absent"):
        printed("absent", False)


def test_embeddings_to_show(tmp_path):
    from google.protobuf import text_format

    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words", "names.tsv"
    embedding.sprite.single_image_dim.extend([8, 8])
    writer = hf.summary.FileWriter(str(tmp_path))
    hf.contrib.tensorboard.plugins.projector.visualize_embeddings(writer, config)
    writer.close()
    text = (tmp_path / "projector_config.pbtxt").read_text()
    assert text_format.Parse(text, projector.ProjectorConfig()) == config
    assert 'tensor_name: "words"' in text


@pytest.mark.parametrize("order", ["before", "after"])
def test_tables_of_embeddings_lie_beside_the_checkpoint(order, tmp_path, session):
    table = np.arange(6, dtype=np.float32).reshape(3, 2) / 4
    with hf.variable_scope("layer"):
        variable = hf.Variable(table, name="words")
    hf.Variable([1.0], name="other")
    session.run(hf.global_variables_initializer())
    config = projector.ProjectorConfig()
    config.embeddings.add(tensor_name="layer/words:0")
    config.embeddings.add(tensor_name="given", tensor_path="given.tsv")
    saver = hf.train.Saver()
    with hf.summary.FileWriter(str(tmp_path)) as writer:
        if order == "before":
            saver.save(session, str(tmp_path / "model"))
        projector.visualize_embeddings(writer, config)
    if order == "after":
        saver.save(session, str(tmp_path / "model"))
    read = np.loadtxt(tmp_path / "layer_words.checkpoint.tsv", delimiter="\t")
    np.testing.assert_array_equal(read, table)
    told = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_path: "layer_words.checkpoint.tsv"' in told
    session.run(variable.assign(table + 1))
    saver.save(session, str(tmp_path / "model"), 7)  # anew with every save
    read = np.loadtxt(tmp_path / "layer_words.checkpoint.tsv", delimiter="\t")
    np.testing.assert_array_equal(read, table + 1)
    assert not (tmp_path / "given.tsv").exists()


@pytest.mark.parametrize(("text", "expected"), [
    ("nonsense {", "projector_config.pbtxt"), ('embeddings { tensor_name: "no" }', "no variable"),
    ('embeddings { tensor_name: "other" }', "expected a matrix")])
def test_a_table_that_cannot_be_written_costs_no_checkpoint(text, expected, tmp_path, session,
                                                            caplog):
    variable = hf.Variable([1.0], name="other")
    session.run(variable.initializer)
    (tmp_path / "projector_config.pbtxt").write_text(text)
    assert hf.train.Saver().save(session, str(tmp_path / "model"))
    assert expected in caplog.text
    assert hf.train.latest_checkpoint(str(tmp_path))


def frozen(build, by_handle, feeds):
    """Node types of the frozen graph that `build` makes; its value is that of the graph."""
    with hf.Graph().as_default() as graph, hf.Session() as session:
        hf.get_variable_scope().set_use_resource(by_handle)
        out = hf.identity(build(), name="out")
        session.run(hf.global_variables_initializer())
        expected = session.run(out, feeds)
        definition = hf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["out"])
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(definition, name="")
        np.testing.assert_array_equal(session.run("out:0", feeds), expected)
    return {node.op for node in definition.node}


def matrix(name="v"):
    return hf.get_variable(name, [5, 3])


def in_branches():
    v, p = matrix(), hf.placeholder(hf.bool, [], name="p")
    return hf.cond(p, lambda: hf.cond(hf.logical_not(p), lambda: v + 1,
                                      lambda: hf.gather(v, [4, 3])),
                   lambda: hf.gather(matrix("w"), [0, 1]))


def in_a_loop():
    v = matrix()
    return hf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, hf.cond(i < 1, lambda: a + v, lambda: a * hf.gather(v, [i]))),
        [0, hf.zeros([5, 3])])[1]


def recurrent():
    cell = hf.nn.rnn_cell.GRUCell(3)
    return hf.nn.dynamic_rnn(cell, hf.ones([2, 4, 3]), dtype=hf.float32)[0]


@pytest.mark.parametrize("by_handle", [False, True], ids=["reference", "handle"])
@pytest.mark.parametrize("build, feeds", [
    (lambda: hf.gather(matrix(), [0, 2]), {}),
    (lambda: hf.gather_nd(matrix(), [[0, 2]]), {}),
    (lambda: hf.shape(matrix()) + hf.size(matrix("w")), {}),
    (lambda: hf.is_variable_initialized(matrix()), {}),
    (in_branches, {"p:0": True}), (in_branches, {"p:0": False}), (in_a_loop, {}), (recurrent, {}),
])
def test_variables_are_frozen_wherever_they_are_read(build, by_handle, feeds):
    kinds = frozen(build, by_handle, feeds)
    assert not [k for k in kinds if "Var" in k or k.startswith(("Ref", "Resource"))]


@pytest.mark.parametrize("by_handle", [False, True], ids=["reference", "handle"])
def test_variable_that_is_written_is_not_frozen(by_handle):
    def build():
        v = matrix()
        with hf.control_dependencies([hf.assign_add(v, hf.ones([5, 3]))]):
            return v + 1

    with pytest.raises(ValueError, match=r"Cannot make variable 'v' a constant.*AssignAdd"):
        frozen(build, by_handle, {})


@pytest.fixture
def with_functions():
    """A graph with a resource variable and functions of its handle: by name, as a GraphDef."""
    with hf.Graph().as_default() as graph:
        variable = hf.get_variable("v", initializer=np.array([[1, 2], [3, 4]], np.float32),
                                   use_resource=True)
        arguments = {"x": (hf.float32, hf.resource), "i": (hf.int32, hf.float32, hf.resource)}

        @function.Defun(*arguments["x"], func_name="Inner")
        def inner(x, handle):
            return hf.raw_ops.ResourceGather(resource=handle, indices=[1, 0], dtype="float") - x

        @function.Defun(*arguments["x"], func_name="Then")
        def then(x, handle):
            return x + hf.raw_ops.ReadVariableOp(resource=handle, dtype="float")

        @function.Defun(*arguments["x"], func_name="Other")
        def other(x, handle):
            return 3 * inner(x, handle)

        @function.Defun(*arguments["i"], func_name="Goes")
        def goes(i, x, handle):
            return i < 3

        @function.Defun(*arguments["i"], func_name="Body")
        def body(i, x, handle):
            value = hf.raw_ops.ReadVariableOp(resource=handle, dtype="float")
            return i + 1, hf.matmul(x, value), handle

        x, zero = hf.ones([2, 2], name="x"), hf.constant(0, name="zero")
        hf.placeholder(hf.bool, [], name="pred")
        then(x, variable.handle)
        other(x, variable.handle)
        goes(zero, x, variable.handle)
        body(zero, x, variable.handle)
        hf.global_variables_initializer()
    return graph.as_graph_def()


def add_call(definition, kind):
    """Add a node "call" of an op that calls functions; returns its output and the inputs fed."""
    node = definition.node.add(name="call", op=kind)
    kinds = [hf.float32.as_datatype_enum, hf.resource.as_datatype_enum]
    if kind == "While":
        node.input.extend(["zero", "x", "v"])
        node.attr["T"].list.type.extend([hf.int32.as_datatype_enum, *kinds])
        node.attr["cond"].func.name, node.attr["body"].func.name = "Goes", "Body"
        return "call:1", [{}]
    node.attr["Tin"].list.type.extend(kinds)
    node.attr["Tout"].list.type.append(kinds[0])
    if kind == "If":
        node.input.extend(["pred", "x", "v"])
        node.attr["Tcond"].type = hf.bool.as_datatype_enum
        node.attr["then_branch"].func.name, node.attr["else_branch"].func.name = "Then", "Other"
        return "call:0", [{"pred:0": True}, {"pred:0": False}]
    node.input.extend(["x", "v"])
    node.attr["f"].func.name = "Other"
    return "call:0", [{}]


@pytest.mark.parametrize("kind", ["If", "While", "PartitionedCall"])
def test_handles_that_functions_take_become_values(with_functions, kind):
    output, feeds = add_call(with_functions, kind)
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(with_functions, name="")
        session.run("init")
        expected = [session.run(output, fed) for fed in feeds]
        frozen = hf.graph_util.convert_variables_to_constants(session, with_functions, ["call"])
    used = [*frozen.node] + [n for f in frozen.library.function for n in f.node_def
                                       if f.signature.name.endswith("_frozen")]
    assert not any(n.op in ("VarHandleOp", "ReadVariableOp", "ResourceGather") for n in used)
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(frozen, name="")
        for fed, value in zip(feeds, expected):
            np.testing.assert_array_equal(session.run(output, fed), value)


def test_functions_that_capture_a_variable_are_frozen():
    with hf.Graph().as_default() as graph, hf.Session() as session:
        variable = hf.get_variable("v", initializer=np.array([2.0, 5.0], np.float32),
                                   use_resource=True)

        @function.Defun(hf.float32)
        def inner(x):
            return hf.gather(variable, [1, 0]) + x

        @function.Defun(hf.float32)
        def outer(x):
            return inner(x) * variable

        result = hf.identity(outer(hf.ones([2])), name="result")
        session.run(variable.initializer)
        expected = session.run(result)
        frozen = hf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["result"])
    with hf.Graph().as_default(), hf.Session() as session:
        hf.import_graph_def(frozen, name="")
        np.testing.assert_array_equal(session.run("result:0"), expected)


def test_a_function_that_writes_the_variable_is_refused():
    with hf.Graph().as_default() as graph, hf.Session() as session:
        variable = hf.get_variable("v", [2], use_resource=True)

        @function.Defun(hf.float32, hf.resource)
        def writes(x, handle):
            with hf.control_dependencies([
                    hf.raw_ops.AssignAddVariableOp(resource=handle, value=x)]):
                return hf.identity(x)

        hf.identity(writes(hf.ones([2]), variable.handle), name="result")
        session.run(variable.initializer)
        with pytest.raises(ValueError, match="needs the variable itself"):
            hf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), ["result"])
