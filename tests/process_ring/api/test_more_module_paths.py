"""Module paths of 1.x with functions of their own, and what tests of programs use."""

import collections
import glob

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.framework import meta_graph, test_util
from hpcflow.python.ops import clustering_ops, gen_sparse_ops, op_selector, sparse_ops
from hpcflow.python.training import tensorboard_logging


def test_the_nearest_centers():
    points = np.array([[0.0, 0.0], [5.0, 5.0], [2.0, 0.0]], np.float32)
    centers = np.array([[1.0, 0.0], [4.0, 4.0], [0.0, 0.0]], np.float32)
    indices, distances = clustering_ops.nearest_neighbors(points, centers, 2)
    assert indices.shape == distances.shape == [3, 2]
    few, _ = clustering_ops.nearest_neighbors(points, centers, 9)
    with hf.Session() as session:
        found = session.run([indices, distances, few])
    assert found[0].tolist() == [[2, 0], [1, 0], [0, 2]]
    assert found[1].tolist() == [[0, 1], [2, 41], [1, 4]]
    assert found[2].shape == (3, 3)


def test_walks_and_sparse_names():
    a = hf.constant(1.0)
    b = a + 1.0
    assert a.op in op_selector.get_backward_walk_ops([b.op], inclusive=False)
    left = sparse_ops.from_dense([[1, 0]])
    joined = sparse_ops.sparse_concat_v2(1, [left, left], expand_nonconcat_dims=True)
    with hf.Session() as session:
        assert session.run(hf.sparse.to_dense(joined)).tolist() == [[1, 0, 1, 0]]
        wrong = gen_sparse_ops.sparse_fill_empty_rows_grad([2, 10], [0, 1, 2, 3])
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"must be in \[0, 4\)"):
            session.run(wrong)
    with pytest.raises(ValueError, match="rank"):
        gen_sparse_ops.sparse_fill_empty_rows_grad([0], [[1]])


def test_messages_in_event_files(tmp_path, caplog):
    writer = hf.summary.FileWriter(str(tmp_path))
    with pytest.raises(ValueError, match="not a valid"):
        tensorboard_logging.set_verbosity("loud")
    tensorboard_logging.set_summary_writer(writer)
    tensorboard_logging.info("not written")
    tensorboard_logging.error("for%s", "mat")
    tensorboard_logging.set_summary_writer(None)
    tensorboard_logging.error("logged only")
    writer.close()
    (path,) = glob.glob(str(tmp_path / "events*"))
    written = [e.log_message.message for e in hf.train.summary_iterator(path)
               if e.HasField("log_message")]
    assert written == ["format"]


def test_summaries_of_a_directory(tmp_path):
    from hpcflow.contrib.testing.python.framework import util_test

    assert util_test.latest_events(str(tmp_path)) == []
    with hf.summary.FileWriter(str(tmp_path)) as writer:
        for step in range(2):
            writer.add_summary(hf.Summary(value=[
                hf.Summary.Value(tag="loss", simple_value=step)]), step)
    found = util_test.latest_summaries(str(tmp_path))
    assert [event.step for event in found] == [0, 1]
    assert util_test.simple_values_from_events(found, ["loss", "other"]) == {"loss": 1.0}


@test_util.run_all_in_graph_and_eager_modes
class WithinSessions(hf.test.TestCase):
    """Every test has a default session."""

    def test_there_is_a_session(self):
        self.assertIs(hf.get_default_session().graph, hf.get_default_graph())
        pair = collections.namedtuple("Pair", "x y")
        self.assertAllClose([pair(np.ones([1, 2]), 3.0)], [([[1.0, 1.0]], 3.0)])
        self.assertAllClose(pair(1.0, 2.0), {"x": 1.0, "y": 2.0})


def test_contexts_keep_their_names_in_new_scopes():
    with hf.Graph().as_default():
        with hf.name_scope("export"):
            hf.while_loop(lambda i: i < 3, lambda i: i + 1, [hf.constant(0)])
        exported, _ = meta_graph.export_scoped_meta_graph(export_scope="export")
    with hf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(exported, import_scope="new")
        again, _ = meta_graph.export_scoped_meta_graph(export_scope="new")
    key = hf.GraphKeys.WHILE_CONTEXT
    assert again.collection_def[key] == exported.collection_def[key]


def test_checkpoints_by_urls(tmp_path):
    v = hf.Variable(3.0)
    saver = hf.train.Saver()
    with hf.Session() as session:
        session.run(v.initializer)
        saver.save(session, f"file://{tmp_path}/model")
        session.run(v.assign(0.0))
        saver.restore(session, f"file://{tmp_path}/model")
        assert session.run(v) == 3.0
