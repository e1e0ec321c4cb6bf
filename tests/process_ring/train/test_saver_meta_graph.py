"""MetaGraphs: a graph with its collections and its saver, exported and imported."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.metagraph import meta_graph


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def model():
    x = hf.placeholder(hf.float32, [None, 2], name="x")
    with hf.device("/cpu:0"):
        w = hf.Variable([[1.0], [2.0]], name="w")
    y = hf.matmul(x, w, name="y")
    hf.add_to_collection("outputs", y)
    hf.add_to_collection("settings", 3)
    hf.add_to_collection("names", "one")
    hf.add_to_collection("rates", 0.5)
    return x, w, y


def test_a_graph_comes_back_with_its_saver_and_collections(tmp_path):
    model()
    saver = hf.train.Saver()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
    with hf.Graph().as_default() as graph:
        saver = hf.train.import_meta_graph(path + ".meta")
        (y,) = hf.get_collection("outputs")
        assert y is graph.get_tensor_by_name("y:0")
        assert hf.get_collection("settings") == [3]
        assert hf.get_collection("names") == [b"one"]
        assert hf.get_collection("rates") == [0.5]
        (w,) = hf.trainable_variables()
        assert hf.global_variables() == [w]
        with hf.Session() as session:
            saver.restore(session, path)
            assert session.run(y, {"x:0": [[1.0, 1.0]]}).tolist() == [[3]]
            # What was imported can be saved again.
            session.run(w.assign([[0.0], [0.0]]))
            again = saver.save(session, str(tmp_path / "again"))
            assert not hf.train.NewCheckpointReader(again).get_tensor("w").any()


def test_import_into_a_scope_twice(tmp_path):
    model()
    saver = hf.train.Saver()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
    with hf.Graph().as_default() as graph:
        first = hf.train.import_meta_graph(path + ".meta", import_scope="net")
        second = hf.train.import_meta_graph(path + ".meta", import_scope="net")
        assert [v.name for v in hf.global_variables()] == ["net/w:0", "net_1/w:0"]
        with hf.Session() as session:
            first.restore(session, path)
            second.restore(session, path)
            found = session.run(["net/y:0", "net_1/y:0"],
                                {"net/x:0": [[1.0, 0.0]], "net_1/x:0": [[0.0, 1.0]]})
        assert [f.item() for f in found] == [1, 2]
        assert graph.get_operation_by_name("net_1/save/restore_all")


@pytest.mark.parametrize("as_text", [False, True])
def test_files_in_both_forms(tmp_path, as_text):
    model()
    filename = str(tmp_path / "graph.meta")
    written = hf.train.export_meta_graph(filename, as_text=as_text)
    assert meta_graph.read_meta_graph_file(filename) == written
    assert (b"node {" in (tmp_path / "graph.meta").read_bytes()) is as_text
    with hf.Graph().as_default() as graph:
        # There is no saver in it, but there are variables.
        saver = hf.train.import_meta_graph(filename)
        assert isinstance(saver, hf.train.Saver)
        assert graph.get_operation_by_name("w").device == "/device:CPU:0"
    assert "MatMul" in {op.name for op in written.meta_info_def.stripped_op_list.op}


def test_a_graph_without_variables_has_no_saver():
    hf.constant(1.0, name="c")
    proto = hf.train.export_meta_graph()
    with hf.Graph().as_default():
        assert hf.train.import_meta_graph(proto) is None


def test_an_empty_saver_writes_the_graph(tmp_path):
    path = str(tmp_path / "model")
    hf.constant(1.0, name="c")
    with hf.Session() as session:
        assert hf.train.Saver(allow_empty=True).save(session, path) is None
    with hf.Graph().as_default() as graph:
        v = hf.Variable(1.0, name="net/v")
        # A Saver is made if there are variables where the graph goes to.
        assert hf.train.import_meta_graph(path + ".meta", import_scope="other") is None
        assert hf.train.import_meta_graph(path + ".meta", import_scope="net") is not None
        assert graph.get_tensor_by_name("net/c:0") is not None and v.op.graph is graph


def test_import_into_the_open_scope(tmp_path):
    from hpcflow.python.framework import meta_graph as scoped

    path = str(tmp_path / "model")
    v = hf.Variable(3.0, name="v")
    with hf.Session() as session:
        session.run(v.initializer)
        hf.train.Saver().save(session, path)
        proto, _ = scoped.export_scoped_meta_graph()
    with hf.Graph().as_default(), hf.Session() as session:
        with hf.name_scope("new"):
            saver = hf.train.import_meta_graph(path + ".meta")
        saver.restore(session, path)
        assert session.run("new/v:0") == 3
        with hf.name_scope("two"):
            (copy,) = scoped.import_scoped_meta_graph(proto).values()
        assert copy.name == "two/v:0"


def test_loops_are_exported_with_names_relative_to_their_scope():
    def frames(graph_def):
        return {n.attr["frame_name"].s for n in graph_def.node if n.op == "Enter"}

    with hf.name_scope("outer"):
        x = hf.Variable(1.0)
        hf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x], name="loop")
    proto = meta_graph.export_meta_graph(export_scope="outer")
    assert frames(proto.graph_def) == {b"loop/while_context"}
    with hf.Graph().as_default() as graph:
        meta_graph.import_scoped_meta_graph(proto, import_scope="inner")
        assert frames(graph.as_graph_def()) == {b"inner/loop/while_context"}
        again = meta_graph.export_meta_graph(export_scope="inner")
    assert frames(again.graph_def) == {b"loop/while_context"}


def test_devices_can_be_cleared():
    model()
    assert not any(n.device for n in hf.train.export_meta_graph(clear_devices=True).graph_def.node)
    proto = hf.train.export_meta_graph()
    with hf.Graph().as_default() as graph:
        hf.train.import_meta_graph(proto, clear_devices=True)
        assert graph.get_operation_by_name("w").device == ""
    assert any(n.device for n in proto.graph_def.node)


def test_what_is_saved_besides_variables_is_no_loss(caplog):
    iterator = hf.data.Dataset.range(3).make_one_shot_iterator()
    hf.add_to_collection(hf.GraphKeys.SAVEABLE_OBJECTS,
                         hf.data.experimental.make_saveable_from_iterator(iterator))
    proto = hf.train.export_meta_graph(saver_def=hf.train.Saver().saver_def)
    assert hf.GraphKeys.SAVEABLE_OBJECTS not in proto.collection_def and not caplog.text


def test_chosen_collections_and_what_has_no_form(caplog):
    model()
    hf.add_to_collection("odd", object())
    hf.add_to_collection("mixed", 1)
    hf.add_to_collection("mixed", "text")
    proto = hf.train.export_meta_graph()
    assert "odd" not in proto.collection_def
    assert "mixed" not in proto.collection_def
    hf.train.export_meta_graph()
    assert caplog.text.count("collection 'odd' is left out") == 1  # not at every save
    chosen = hf.train.export_meta_graph(collection_list=["outputs"])
    assert list(chosen.collection_def) == ["outputs"]


def test_a_part_of_a_graph():
    with hf.name_scope("a"):
        x = hf.constant([[1.0, 1.0]], name="x")
    with hf.name_scope("b"):
        w = hf.Variable([[1.0], [2.0]], name="w")
        y = hf.matmul(x, w, name="y")
        hf.add_to_collection("outputs", y)
    hf.add_to_collection("outputs", x)
    saver = hf.train.Saver(name="b/save")
    proto = saver.export_meta_graph(export_scope="b")
    names = [n.name for n in proto.graph_def.node]
    assert "y" in names
    assert "w" in names
    assert not any(n.startswith(("a", "b/")) for n in names)
    assert list(proto.collection_def["outputs"].node_list.value) == ["y:0"]
    with hf.Graph().as_default() as graph:
        with pytest.raises(ValueError, match=r"unbound inputs: \$unbound_inputs_a/x"):
            hf.train.import_meta_graph(proto)
        z = hf.constant([[2.0, 0.0]])
        hf.train.import_meta_graph(proto, import_scope="c", input_map={"$unbound_inputs_a/x": z})
        assert graph.get_tensor_by_name("c/y:0").op.inputs[0] is z
        assert [v.name for v in hf.global_variables()] == ["c/w:0"]


def test_savers_travel_in_protobufs(tmp_path):
    _, w, _ = model()
    saver = hf.train.Saver(max_to_keep=3, keep_checkpoint_every_n_hours=5)
    proto = saver.to_proto()
    assert proto == saver.as_saver_def()
    assert (proto.max_to_keep, proto.keep_checkpoint_every_n_hours) == (3, 5)
    assert proto.filename_tensor_name == "save/Const:0"
    assert proto.save_tensor_name == "save/control_dependency:0"
    assert proto.restore_op_name == "save/restore_all"
    assert saver.to_proto(export_scope="other") is None
    assert saver.to_proto(export_scope="save").restore_op_name == "restore_all"
    again = hf.train.Saver.from_proto(proto)
    with hf.Session() as session:
        session.run(w.initializer)
        path = again.save(session, str(tmp_path / "m"))
        session.run(w.assign(np.zeros((2, 1), np.float32)))
        saver.restore(session, path)
        assert session.run(w).tolist() == [[1], [2]]
    with pytest.raises(ValueError, match="must specify the restore_op_name"):
        hf.train.Saver(saver_def=type(proto)(filename_tensor_name="a", save_tensor_name="b"))


def test_files_that_are_none(tmp_path):
    with pytest.raises(OSError, match="does not exist"):
        hf.train.import_meta_graph(str(tmp_path / "absent"))
    (tmp_path / "bad").write_bytes(b"\x0b\xff not a graph")
    with pytest.raises(OSError, match="Cannot parse file"):
        hf.train.import_meta_graph(str(tmp_path / "bad"))
    with pytest.raises(TypeError, match="unexpected arguments: wrong"):
        hf.train.export_meta_graph(wrong=1)


def test_write_graph(tmp_path):
    from google.protobuf import text_format

    model()
    path = hf.train.write_graph(hf.get_default_graph(), str(tmp_path / "new"), "g.pbtxt")
    with open(path) as file:
        proto = text_format.Parse(file.read(), hf.GraphDef())
    assert proto == hf.get_default_graph().as_graph_def()
    path = hf.train.write_graph(proto, str(tmp_path), "g.pb", as_text=False)
    with open(path, "rb") as file:
        assert hf.GraphDef.FromString(file.read()) == proto


def test_queue_runners_travel(tmp_path):
    queue = hf.FIFOQueue(10, [hf.int32], [[]], name="numbers")
    hf.train.add_queue_runner(hf.train.QueueRunner(queue, [queue.enqueue(7)]))
    hf.identity(queue.dequeue(), name="taken")
    proto = hf.train.export_meta_graph()
    with hf.Graph().as_default(), hf.Session() as session:
        hf.train.import_meta_graph(proto, import_scope="net")
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        assert session.run("net/taken:0") == 7
        coordinator.request_stop()
        coordinator.join(threads)


def test_contexts_of_loops_and_conditionals(tmp_path):
    """What is inside of others is part of these, as other readers want it."""
    def build():
        x = hf.placeholder(hf.float32, [2], name="x")
        body = lambda i, a: (i + 1, hf.cond(hf.reduce_sum(a) > 1.0, lambda: a * x,
                                            lambda: hf.sin(a) + x))
        y = hf.while_loop(lambda i, _: i < 3, body, [0, x])[1]
        return x, hf.cond(y[0] > 0.0, lambda: y * 2.0, lambda: y)

    with hf.Graph().as_default() as graph, graph.name_scope("part"):
        x, y = build()
        hf.add_to_collection("ends", x)
        hf.add_to_collection("ends", y)
        (loop,) = graph.get_collection(hf.GraphKeys.WHILE_CONTEXT)
        assert len(graph.get_collection(hf.GraphKeys.COND_CONTEXT)) == 2
        with hf.Session() as session:
            wanted = session.run([y, hf.gradients(y, x)[0]], {x: [0.3, 0.9]})
    with hf.Graph().as_default() as graph:
        with graph.name_scope("part"):
            for tensor in build():
                hf.add_to_collection("ends", tensor)
        meta = hf.train.export_meta_graph(str(tmp_path / "graph.meta"), export_scope="part")
    from hpcflow.base.formats.protos import message_class

    kind = message_class("WhileContextDef")
    proto = kind.FromString(meta.collection_def["while_context"].bytes_list.value[0])
    assert proto.context_name == "while/while_context" and proto.parallel_iterations == 10
    assert len(proto.loop_exit_names) == 2 and len(proto.nested_contexts) == 2
    assert {c.cond_ctxt.branch for c in proto.nested_contexts} == {0, 1}
    assert proto.values_def.external_values["x:0"].startswith("while/")
    with hf.Graph().as_default() as graph, hf.Session() as session:
        hf.train.import_meta_graph(str(tmp_path / "graph.meta"), import_scope="again")
        (found,) = graph.get_collection(hf.GraphKeys.WHILE_CONTEXT)
        branches = graph.get_collection(hf.GraphKeys.COND_CONTEXT)
        assert type(found) is type(loop) and found.name == "again/while/while_context"
        assert [b.branch for b in branches] == [1, 0] and branches[0].pred is branches[1].pred
        x, y = graph.get_collection("ends")
        got = session.run([y, hf.gradients(y, x)[0]], {x: [0.3, 0.9]})
        for a, b in zip(got, wanted):
            np.testing.assert_array_equal(a, b)


def test_messages_of_any_type_travel(tmp_path):
    from google.protobuf.any_pb2 import Any

    packed = Any()
    packed.Pack(hf.constant(1).op.node_def)
    hf.add_to_collection("packed", packed)
    path = str(tmp_path / "m")
    hf.train.export_meta_graph(path)
    with hf.Graph().as_default():
        hf.train.import_meta_graph(path)
        assert hf.get_collection("packed") == [packed]


def test_scopes_with_their_variables():
    from hpcflow.python.framework import meta_graph as scoped

    with hf.name_scope("layer"):
        model()
    proto, variables = scoped.export_scoped_meta_graph(export_scope="layer")
    assert list(variables) == ["w:0"] and variables["w:0"].op.name == "layer/w"
    assert "x" in {n.name for n in proto.graph_def.node}
    copies = scoped.copy_scoped_meta_graph("layer", "copy")
    assert copies["w:0"].op.name == "copy/w"
    with pytest.raises(ValueError, match="need to be different"):
        scoped.copy_scoped_meta_graph("layer", "layer")
    with hf.Graph().as_default() as other:
        assert scoped.import_scoped_meta_graph(proto, import_scope="a")["w:0"].op.name == "a/w"
        again = scoped.import_scoped_meta_graph(
            proto, import_scope="b", unbound_inputs_col_name=None)
        assert list(again) == ["w:0"]
        used = [op.name for op in scoped.stripped_op_list_for_graph(other.as_graph_def()).op]
        assert used == sorted(used) and "MatMul" in used


@pytest.mark.parametrize("scope", [None, "imported"])
def test_variables_made_in_bodies_of_loops(tmp_path, scope):
    def body(i, x):
        scale = hf.get_variable("scale", initializer=lambda: hf.constant(2.0))
        with hf.variable_scope("step", reuse=hf.AUTO_REUSE):
            x = hf.layers.dense(x * scale, 2, kernel_initializer=hf.ones_initializer())
        return i + 1, x

    with hf.Graph().as_default(), hf.Session() as session:
        _, result = hf.while_loop(lambda i, x: i < 2, body, [0, hf.ones([1, 2])], name="loop")
        hf.add_to_collection("result", result)
        session.run(hf.global_variables_initializer())
        names = [v.op.name for v in hf.trainable_variables()]
        assert names == ["scale", "step/dense/kernel", "step/dense/bias"]
        slopes = session.run(hf.gradients(result, hf.trainable_variables()))
        saver = hf.train.Saver()
        saver.save(session, str(tmp_path / "model"))
    with hf.Graph().as_default(), hf.Session() as session:
        saver = hf.train.import_meta_graph(str(tmp_path / "model.meta"), import_scope=scope)
        saver.restore(session, str(tmp_path / "model"))
        (result,) = hf.get_collection("result")
        assert session.run(result).tolist() == [[16.0, 16.0]]
        prefix = "" if scope is None else f"{scope}/"
        assert [v.op.name for v in hf.trainable_variables()] == [prefix + n for n in names]
        again = session.run(hf.gradients(result, hf.trainable_variables()))
        for one, other in zip(slopes, again):
            np.testing.assert_array_equal(one, other)
        train = hf.train.GradientDescentOptimizer(0.1).minimize(hf.reduce_sum(result))
        session.run(train)
        assert session.run(result).tolist() != [[16.0, 16.0]]
