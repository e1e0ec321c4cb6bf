"""Functions that 1.x got after 1.0: repeat, init_scope, watching checkpoints and others."""

import os
import threading
import time

import gradcheck
import numpy as np
import pytest
from running import run
from speed import patience

import hpcflow as hf
from hpcflow.framework import function

pytestmark = pytest.mark.usefixtures("checked")
X = np.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


@pytest.mark.parametrize(("repeats", "axis"), [
    (2, None), (2, 0), (3, -1), ([1, 2], 0), ([0, 2, 1], 1), ([2], 1), (0, 0),
    ([1, 0, 2, 3, 0, 1], None)])
def test_repeat(repeats, axis):
    np.testing.assert_array_equal(run(hf.repeat(X, repeats, axis)), np.repeat(X, repeats, axis))
    gradcheck.check_gradient(lambda v: hf.repeat(v, repeats, axis), X)


def test_repeat_of_sizes_that_only_a_step_knows():
    x = hf.placeholder(hf.float32, [None, None])
    counts = hf.placeholder(hf.int32, [None])
    with hf.Session() as session:
        made = session.run(hf.repeat(x, counts, 0), {x: X, counts: [2, 1]})
        np.testing.assert_array_equal(made, np.repeat(X, [2, 1], 0))
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(hf.repeat(x, counts, 1), {x: X, counts: [2, 1]})


def test_what_cannot_be_repeated():
    with pytest.raises(ValueError, match="no axis 2"):
        hf.repeat(X, 2, 2)
    with pytest.raises(ValueError, match="scalar or a vector"):
        hf.repeat(X, [[1, 2]], 0)


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"exclusive": True}])
def test_cumulative_logsumexp(options):
    found = run(hf.math.cumulative_logsumexp(X, 1, **options))
    expected = run(hf.cumsum(np.exp(X), 1, **options))
    np.testing.assert_allclose(np.exp(found), expected)


def test_complex_numbers():
    assert hf.to_complex64(X).dtype is hf.complex64
    np.testing.assert_array_equal(run(hf.to_complex128(X)), X + 0j)


def test_a_dense_tensor_as_a_sparse_one():
    dense = np.array([[0, 3, 0], [2, 0, 0]])
    sparse = run(hf.sparse.from_dense(dense))
    np.testing.assert_array_equal(sparse.indices, [[0, 1], [1, 0]])
    np.testing.assert_array_equal(sparse.values, [3, 2])
    assert list(sparse.dense_shape) == [2, 3]
    np.testing.assert_array_equal(run(hf.sparse.from_dense([b"", b"a"])).values, [b"a"])


def test_what_is_built_in_an_init_scope_is_outside():
    x = hf.constant(2.0)
    made = []

    def body(i):
        with hf.name_scope("inner"), hf.init_scope():
            made.append(hf.multiply(x, 3.0, name="made"))
        return i + 1.0

    result = hf.while_loop(lambda i: i < 3.0, body, [0.0])
    assert made[0].op._control_flow_context is None
    assert made[0].name.endswith("inner/made:0")
    assert run(made[0], result) == [6.0, 3.0]

    @function.Defun(hf.float32)
    def outside(v):
        with hf.device("/cpu:0"), hf.init_scope():
            made.append(hf.constant(5.0))
        return v + made[-1]

    with hf.device("/job:localhost"):
        assert run(outside(1.0)) == 6.0
        assert hf.constant(1.0).device == "/job:localhost"
    assert made[-1].device == "/device:CPU:0"
    assert made[-1].graph is hf.get_default_graph()


def test_checkpoints_as_they_come(tmp_path):
    v = hf.Variable(1.0)
    saver, paths = hf.train.Saver(max_to_keep=10), []
    with hf.Session() as session:
        session.run(v.initializer)

        def save():
            for step in range(2):
                time.sleep(0.05)
                paths.append(saver.save(session, str(tmp_path / "model"), step))

        thread = threading.Thread(target=save)
        thread.start()
        found = []
        for path in hf.train.checkpoints_iterator(str(tmp_path), timeout=patience()):
            found.append(path)
            if path.endswith("-1"):
                break
        thread.join()
    assert found[-1] == paths[-1]
    assert set(found) <= set(paths)


def test_waiting_for_checkpoints_ends(tmp_path):
    asked = []

    def enough():
        asked.append(1)
        return len(asked) == 2

    assert not list(hf.train.checkpoints_iterator(str(tmp_path), timeout=0))
    assert not list(hf.contrib.training.checkpoints_iterator(str(tmp_path), timeout=0,
                                                             timeout_fn=enough))
    assert len(asked) == 2


def test_a_checkpoint_is_removed_with_its_meta_graph(tmp_path):
    v = hf.Variable(1.0)
    with hf.Session() as session:
        session.run(v.initializer)
        path = hf.train.Saver().save(session, str(tmp_path / "model"), write_state=False)
    assert os.listdir(tmp_path)
    hf.train.remove_checkpoint(path)
    assert not os.listdir(tmp_path)
    hf.train.remove_checkpoint(path)


def test_the_shape_of_parts_that_are_repeated_as_often_as_a_shape_says():
    x, y = hf.ones([2, 4]), hf.ones([3, 4])
    assert hf.repeat(x, hf.shape(y)[0], axis=0).shape == [6, 4]
    assert hf.repeat(x, [1, 3, 0, 2], axis=1).shape == [2, 6]
    often = hf.placeholder(hf.int32)
    repeated = hf.repeat(x, often, axis=0)
    assert repeated.shape.as_list() == [None, 4]
    with hf.Session() as session:
        assert [session.run(repeated, {often: n}).shape for n in (3, [1, 0])] == [(6, 4), (1, 4)]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling_by_the_rank_of_the_input(rank):
    x = np.arange(2 * 4**rank * 3, dtype=np.float32).reshape(2, *[4] * rank, 3)
    blocks = x.reshape(2, *[2] * (2 * rank), 3)
    axes = tuple(range(2, 2 * rank + 1, 2))
    with hf.Session() as session:
        for function, expected in ((hf.nn.max_pool_v2, blocks.max(axes)),
                                   (hf.compat.v2.nn.avg_pool, blocks.mean(axes))):
            np.testing.assert_allclose(session.run(function(x, 2, 2, "VALID")), expected)
    with pytest.raises(ValueError, match="must be 3, 4 or 5"):
        hf.nn.avg_pool_v2(np.zeros((2, 3), np.float32), 2, 2, "VALID")


def test_shapes_of_approximately_equal_values_are_the_same():
    with pytest.raises(ValueError, match="Shapes must be equal rank"):
        hf.raw_ops.ApproximateEqual(x=[1.0, 2.0], y=[[1.0, 2.0]])
