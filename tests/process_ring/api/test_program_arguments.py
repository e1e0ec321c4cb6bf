"""Arguments and files as programs of 1.x give them: casts, iterables, modes, ports, assets."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.core.protobuf import meta_graph_pb2
from hpcflow.placement import Placement


def test_cross_entropy_casts_labels_and_takes_them_first(session):
    logits = hf.constant([[1.0, 2.0], [3.0, 4.0]])
    whole = hf.constant([[0, 1], [1, 0]])
    losses = [
        hf.nn.softmax_cross_entropy_with_logits_v2(whole, logits),
        hf.nn.softmax_cross_entropy_with_logits_v2(hf.cast(whole, hf.float64), logits, axis=1),
        hf.nn.softmax_cross_entropy_with_logits(labels=whole, logits=logits, dim=1),
        hf.nn.softmax_cross_entropy_with_logits(labels=np.array([[False, True], [True, False]]),
                                                logits=logits),
    ]
    for loss in session.run(losses):
        np.testing.assert_allclose(loss, [0.31326166, 1.3132616], rtol=1e-6)


@pytest.mark.parametrize("make", [
    lambda a, b: {"a": a, "b": b}.values(), lambda a, b: (v for v in (a, b)),
    lambda a, b: {"a": a, "b": b}], ids=["view", "generator", "dict"])
def test_lists_of_variables_may_be_any_iterable(session, tmp_path, make):
    a, b = hf.Variable(1.0, name="a"), hf.Variable(2.0, name="b")
    loss = a * a + b
    pairs = hf.train.GradientDescentOptimizer(0.1).compute_gradients(loss, make(a, b))
    assert [v for _, v in pairs] == [a, b]
    assert len(hf.gradients(loss, make(a, b))) == 2
    train = hf.train.AdamOptimizer().minimize(loss, var_list=make(a, b))
    session.run(hf.global_variables_initializer())
    session.run([train, hf.group({"x": a.op}.values())])
    assert hf.train.Saver(make(a, b)).save(session, str(tmp_path / "x"))


def test_steps_and_counts_of_accumulators_are_scalars(graph):
    dense = hf.ConditionalAccumulator(hf.float32, shape=[2])
    sparse = hf.SparseConditionalAccumulator(hf.float32, shape=[2, 2])
    for build in (lambda: dense.apply_grad([1.0, 2.0], local_step=[1]),
                  lambda: dense.take_grad([1]), lambda: dense.set_global_step([1]),
                  lambda: sparse.apply_grad([0], [[1.0, 2.0]], local_step=[1]),
                  lambda: sparse.take_grad([1]), lambda: sparse.set_global_step([1])):
        with pytest.raises(ValueError, match="rank 0 but is rank 1"):
            build()


def test_saver_makes_the_last_directory_alone(session, tmp_path):
    hf.Variable(1.0)
    session.run(hf.global_variables_initializer())
    saver = hf.train.Saver()
    assert hf.train.checkpoint_exists(saver.save(session, str(tmp_path / "new" / "x")))
    with pytest.raises(ValueError, match=r"Parent directory of .* doesn't exist"):
        saver.save(session, str(tmp_path / "other" / "deeper" / "x"))


def test_files_for_both_directions(tmp_path):
    path = str(tmp_path / "file")
    with hf.gfile.GFile(path, "w+") as file:
        file.write("één\r\nb")
        file.seek(0)
        assert file.readlines() == ["één\r\n", "b"]
    with hf.gfile.GFile(path, "a+") as file:
        file.write(b"cd")
        assert file.read() == "één\r\nbcd"
    with hf.gfile.GFile(path, "r+b") as file:
        assert file.read(2) == "é".encode()
        file.write("E")
        file.seek(-2, whence=2)
        assert file.read() == b"cd"
        file.seek(position=0)
        file.seek(offset=1, whence=1)
        assert file.tell() == 1
    assert hf.gfile.Glob([path, path + "*"]) == [path, path]


@pytest.mark.parametrize("act, error", [
    (lambda path: hf.gfile.GFile(path, "x"), hf.errors.InvalidArgumentError),
    (lambda path: hf.gfile.GFile(path, "w").read(), hf.errors.PermissionDeniedError),
    (lambda path: hf.gfile.GFile(path, "r").write("a"), hf.errors.PermissionDeniedError),
    (lambda path: hf.gfile.GFile(path, "w").seek(0), hf.errors.PermissionDeniedError),
    (lambda path: hf.gfile.GFile(path).seek(), TypeError),
    (lambda path: hf.gfile.GFile(path).seek(1, position=1), TypeError),
    (lambda path: hf.gfile.GFile(path).seek(0, 5), hf.errors.InvalidArgumentError),
    (lambda path: hf.gfile.GFile(path).seek(-1), hf.errors.InvalidArgumentError),
    (lambda path: hf.gfile.GFile(path).seek(9), hf.errors.OutOfRangeError),
    (lambda path: hf.gfile.GFile(path + "/no/no").read(), hf.errors.FailedPreconditionError),
    (lambda path: hf.gfile.GFile(path + "no").read(), hf.errors.NotFoundError),
])
def test_files_refuse_what_their_mode_excludes(tmp_path, act, error):
    path = tmp_path / "file"
    path.write_text("abc")
    with pytest.raises(error):
        act(str(path))


def test_servers_on_port_0_have_addresses_of_their_own():
    made = [hf.train.Server({"local": ["localhost:0"]}, "local", 0) for _ in range(2)]
    assert made[0].target != made[1].target
    for server in made:
        assert not server.target.endswith(":0")
        with hf.Graph().as_default(), hf.Session(server.target) as session:
            assert session.run(hf.constant(1)) == 1
        server._server.close()


@pytest.mark.parametrize("as_text", [False, True], ids=["binary", "text"])
def test_assets_unpack_into_the_public_class(session, tmp_path, as_text):
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("a")
    hf.Variable(1.0)
    session.run(hf.global_variables_initializer())
    builder = hf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
    builder.add_meta_graph_and_variables(
        session, ["serve"], assets_collection=[hf.constant(str(vocabulary))])
    with open(builder.save(as_text), "rb") as file:
        assert b"tensorflow.AssetFileDef" in file.read()
    with hf.Graph().as_default(), hf.Session() as other:
        meta = hf.saved_model.loader.load(other, ["serve"], str(tmp_path / "model"))
        loaded = meta.collection_def["saved_model_assets"].any_list.value
        for item in [*loaded, *hf.get_collection("saved_model_assets")]:
            asset = meta_graph_pb2.AssetFileDef()
            assert item.Unpack(asset) and asset.filename == "vocabulary.txt"


def test_placement_applies_to_a_graph_def(graph):
    with hf.device("/job:a"):
        hf.constant(1.0, name="x")
        hf.constant(1.0, name="y")
    definition = graph.as_graph_def()
    Placement({"x": "/job:b"}).apply(definition)
    assert [n.device for n in definition.node] == ["/job:b", "/job:a"]
    Placement({"x": "/job:b"}).apply(definition, clear=True)
    assert [n.device for n in definition.node] == ["/job:b", ""]
