"""Names, keywords and functions of 0.x and of later 1.x."""

import gradcheck
import numpy as np
import pytest

import hpcflow as hf
import hpcflow.compat.v1
from hpcflow.api import other_names

pytestmark = pytest.mark.usefixtures("checked")
X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


def run(*tensors):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        found = session.run(list(tensors))
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize(("module", "name"), [
    (module, name) for module, names in other_names.NAMES.items() for name in names])
def test_every_other_name_stands_for_something(module, name):
    found = hf
    for part in [*module.split(".")[1:], name]:
        found = getattr(found, part)
    assert found is not None


def test_a_name_that_nothing_is_known_of():
    for module in (hf, hf.nn, hf.train, hf.image, hf.contrib, hf.math):
        with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
            _ = module.unheard_of


def test_modules_of_later_versions():
    assert hf.math.log is hf.log and hf.random.normal is hf.random_normal
    assert hf.linalg.inv is hf.matrix_inverse and hf.linalg.diag is hf.matrix_diag
    assert hf.strings.join is hf.string_join and hf.io.read_file is hf.read_file
    assert hf.initializers.zeros is hf.zeros_initializer
    assert issubclass(hf.nn.rnn_cell.GRUCell, hf.nn.rnn_cell.RNNCell)
    assert hf.compat.v1.Session is hf.Session and hf.compat.as_bytes("a") == b"a"
    hf.compat.v1.disable_v2_behavior()
    hf.disable_eager_execution()
    assert not hf.executing_eagerly()


def test_keywords_of_later_versions():
    assert hf.reduce_sum(X, 1, keepdims=True).shape.as_list() == [2, 1]
    assert run(hf.argmax(X, 1, output_type=hf.int32)).dtype == np.int32
    np.testing.assert_array_equal(run(hf.nn.softmax(X, axis=0)), run(hf.nn.softmax(X, dim=0)))
    mean, _ = hf.nn.moments(hf.constant(X), [0], keepdims=True)
    assert mean.shape.as_list() == [1, 3]
    with pytest.raises(TypeError, match="both keepdims and keep_dims"):
        hf.reduce_sum(X, 1, keepdims=True, keep_dims=True)
    kept = run(hf.nn.dropout(np.ones(2000, np.float32), rate=0.25, seed=1))
    assert set(kept.tolist()) == {0.0, np.float32(4 / 3)} and 0.6 < (kept > 0).mean() < 0.9
    with pytest.raises(ValueError, match="one of them"):
        hf.nn.dropout(X)


def test_the_order_of_arguments_of_the_first_versions():
    np.testing.assert_array_equal(run(hf.concat(1, [X, X])), np.concatenate([X, X], 1))
    parts = run(*hf.split(1, 3, X))
    np.testing.assert_array_equal(np.concatenate(parts, 1), X)
    tags = ["a", "b"]
    summary = hf.Summary.FromString(run(hf.scalar_summary(tags, [1.0, 2.0])))
    assert [(v.tag, v.simple_value) for v in summary.value] == [("a", 1.0), ("b", 2.0)]
    hf.histogram_summary("h", X)
    hf.image_summary("i", np.ones((1, 2, 2, 1), np.float32), max_images=1)
    hf.audio_summary("s", np.zeros((1, 8), np.float32), 8000)
    merged = hf.Summary.FromString(run(hf.merge_all_summaries()))
    assert [v.tag for v in merged.value][:3] == ["a", "b", "h"] and len(merged.value) == 5


def test_variables_made_or_reused():
    def layer():
        with hf.variable_scope("a", reuse=hf.AUTO_REUSE):
            hf.layers.dense(hf.constant(X), 2)
            with hf.variable_scope("b"):
                return hf.get_variable("w", [2], regularizer=lambda w: hf.reduce_sum(w))

    assert layer() is layer()
    assert [v.op.name for v in hf.global_variables()] == ["a/dense/kernel", "a/dense/bias",
                                                          "a/b/w"]
    assert len(hf.losses.get_regularization_losses()) == 1
    with hf.variable_scope("a", reuse=True), pytest.raises(ValueError, match="does not exist"):
        hf.get_variable("other", [2])


def test_losses():
    labels, logits = np.array([[0.2, 0.8, 0.0]]), np.array([[1.0, 2.0, -1.0]])

    def loss(a, b):
        return hf.nn.softmax_cross_entropy_with_logits_v2(labels=hf.identity(a), logits=b)

    np.testing.assert_allclose(run(loss(labels, logits)), run(
        hf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)))
    gradcheck.check_gradient(lambda a: loss(a, logits), labels, second=False)
    gradcheck.check_gradient(lambda b: loss(labels, b), logits, second=False)
    huber = hf.losses.huber_loss(np.zeros(3), np.array([0.5, -3.0, 2.0]), delta=2.0)
    np.testing.assert_allclose(run(huber), np.mean([0.125, 4.0, 2.0]))
    gradcheck.check_gradient(hf.nn.swish, logits)
    gradcheck.check_gradient(hf.log_sigmoid, logits)


def test_flatten():
    assert hf.layers.flatten(np.zeros((2, 3, 4))).shape.as_list() == [2, 12]
    x = hf.placeholder(hf.float32, [None, 3, 4])
    assert hf.contrib.layers.flatten(x).shape.as_list() == [None, 12]
    unknown = hf.placeholder(hf.float32)
    with hf.Session() as session:
        flat = hf.layers.flatten(unknown)
        assert session.run(flat, {unknown: np.zeros((2, 3, 4))}).shape == (2, 12)
    with pytest.raises(ValueError, match="batch dimension"):
        hf.layers.flatten(1.0)


def test_programs_may_give_tensors_and_operations_attributes():
    x = hf.constant(X)
    x.history, x.op.layer = ["made"], 3
    assert hf.get_default_graph().get_tensor_by_name(x.name).op.layer == 3
    assert x.history == ["made"]


@pytest.mark.parametrize("name", ["assign", "assign_add", "assign_sub"])
def test_values_cannot_be_assigned_to(name):
    with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}'"):
        getattr(hf, name)(hf.constant(1.0), 1.0)
