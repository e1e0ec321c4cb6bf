"""Names and module paths that packages written for 1.x take from it."""

import importlib
import os

import pytest

import hpcflow as hf


@pytest.mark.parametrize("path", [
    "app", "gfile", "logging", "nest", "python_io", "resource_loader", "test", "tpu"])
def test_public_modules_are_imported_by_their_paths(path):
    assert importlib.import_module(f"hpcflow.{path}") is getattr(hf, path)


@pytest.mark.parametrize(("path", "names"), [
    ("contrib.slim", ("layers initializers regularizers summaries optimizers conv3d_transpose "
                     "spatial_softmax safe_embedding_lookup_sparse global_variable elu")),
    ("python.estimator.canned.head", "_Head"),
    ("python.feature_column.feature_column", "_EmbeddingColumn"),
    ("python.framework.constant_op", "_tensor_shape_tensor_conversion_function"),
    ("python.framework.ops", "EagerTensor"),
    ("python.keras", "Input Model Sequential layers"),
    ("python.keras.utils.conv_utils", "conv_output_length deconv_output_length"),
    ("python.training.summary_io", "SummaryWriter SummaryWriterCache summary_iterator"),
    ("tpu", "CrossShardOptimizer cross_replica_sum"),
])
def test_names_are_there(path, names):
    module = importlib.import_module(f"hpcflow.{path}")
    assert [name for name in names.split() if not hasattr(module, name)] == []


def test_nothing_is_an_eager_tensor():
    from hpcflow.python.framework.ops import EagerTensor

    assert not isinstance(hf.constant(1.0), EagerTensor)


def test_slim_layers_are_those_of_contrib():
    from hpcflow.contrib import slim

    assert slim.layers.softmax(hf.zeros([2, 3])).shape == [2, 3]
    assert slim.initializers.xavier_initializer()([2, 3]).shape == [2, 3]


def test_scopes_without_a_name_scope():
    from hpcflow.python.ops import variable_scope

    with variable_scope._pure_variable_scope("inner") as scope:
        assert scope.name == "inner"
        assert hf.get_variable("v", [1]).op.name == "inner/v"
        assert hf.constant(1.0, name="c").op.name == "c"


def test_gradients_as_of_the_second_version():
    from hpcflow.python.ops import gradients_impl

    x = hf.constant(3.0)
    found, missing = gradients_impl.gradients_v2(x * x, [x, hf.constant(1.0)],
                                                 unconnected_gradients="zero")
    with hf.Session() as session:
        assert session.run([found, missing]) == [6.0, 0.0]


def test_an_event_file_by_its_path(tmp_path):
    from hpcflow.python import pywrap_tensorflow

    writer = pywrap_tensorflow.EventsWriter(os.fsencode(tmp_path / "events"))
    name = os.fsdecode(writer.FileName())
    assert os.path.basename(name).startswith("events.out.tfevents.")
    writer.WriteEvent(hf.Event(step=3))
    writer.Flush()
    assert [event.step for event in hf.train.summary_iterator(name)] == [0, 3]
    writer.WriteEvent(hf.Event(step=4))
    writer.Close()
    assert [event.step for event in hf.train.summary_iterator(name)] == [0, 3, 4]
    with pytest.raises(TypeError, match=r"Expected an event_pb2\.Event proto"):
        writer.WriteEvent(3)


def test_optimizers_by_their_names():
    from hpcflow.python.estimator.canned.optimizers import get_optimizer_instance

    assert isinstance(get_optimizer_instance("Adam", 0.1), hf.train.AdamOptimizer)
    assert isinstance(get_optimizer_instance(lambda: hf.train.AdamOptimizer()),
                      hf.train.AdamOptimizer)
    with pytest.raises(ValueError, match="learning_rate must be specified"):
        get_optimizer_instance("Adam")
    with pytest.raises(ValueError, match="Unsupported optimizer name: adam"):
        get_optimizer_instance("adam", 0.1)


def test_modules_that_are_imported_when_they_are_needed():
    from hpcflow.python.util.lazy_loader import LazyLoader

    names = {}
    loader = LazyLoader("places", names, "posixpath", warning="it was moved")
    with pytest.warns(UserWarning, match="it was moved"):
        assert loader.join("a", "b") == "a/b"
    assert names["places"] is importlib.import_module("posixpath")
