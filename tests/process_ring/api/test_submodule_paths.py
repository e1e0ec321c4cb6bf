"""Imports of public modules by their full paths, and names below ``python`` that programs use."""

import importlib
import inspect
import operator
import sys

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.data.ops import dataset_ops
from hpcflow.python.estimator.canned import head as canned_head
from hpcflow.python.framework import composite_tensor, ops
from hpcflow.python.ops import array_grad, inplace_ops, resources, summary_op_util
from hpcflow.python.util.lazy_loader import LazyLoader


@pytest.mark.parametrize("path", [
    "train", "nn", "keras.layers", "keras.backend", "logging", "math", "gfile", "estimator.export"])
def test_a_module_below_v1_is_the_one_of_the_package(path):
    module = importlib.import_module(f"hpcflow.compat.v1.{path}")
    assert module is importlib.import_module(f"hpcflow.{path}")
    assert hf.compat.v1.train is hf.train
    assert "compat.v1" not in module.__spec__.name if module.__spec__ else True


def test_no_module_below_v1_of_another_name():
    with pytest.raises(ModuleNotFoundError, match=r"hpcflow\.compat\.v1\.nothing"):
        importlib.import_module("hpcflow.compat.v1.nothing")
    with pytest.raises(ModuleNotFoundError, match="losing"):
        importlib.import_module("hpcflow.compat.v1.train.losing")


@pytest.mark.parametrize("name", [
    "app", "autograph", "autograph.experimental", "flags", "gfile", "logging", "nest", "python_io",
    "resource_loader", "test", "tpu"])
def test_public_modules_are_importable(name):
    assert importlib.import_module(f"hpcflow.{name}") is operator.attrgetter(name)(hf)


def test_cells_are_a_module():
    from hpcflow.nn.rnn_cell import LSTMCell

    assert LSTMCell is hf.nn.rnn_cell.LSTMCell


def test_names_of_internal_modules():
    assert issubclass(hf.data.TextLineDataset, dataset_ops.DatasetV1)
    assert hf.__version__ == hf.version.VERSION
    sparse = hf.SparseTensor([[0]], [1.0], [3])
    assert isinstance(sparse, composite_tensor.CompositeTensor)
    assert not isinstance(hf.constant(1.0), (composite_tensor.CompositeTensor, ops.EagerTensor))
    hint = ops.convert_to_tensor_v2([1, 2], dtype_hint=hf.float32)
    assert hint.dtype == hf.float32
    assert summary_op_util.skip_summary() is False
    with summary_op_util.summary_scope("loss", "train") as (tag, scope):
        assert (tag, scope) == ("train/train/loss", "train/loss/")
    rows = inplace_ops.alias_inplace_update(hf.zeros([3, 2]), 1, [1.0, 2.0])
    found = []
    with hf.Session() as session:
        found = session.run([rows, resources.report_uninitialized_resources()])
    assert found[0].tolist() == [[0, 0], [1, 2], [0, 0]]
    assert found[1].tolist() == []


def test_a_gradient_by_the_name_of_its_function():
    x = hf.constant([[1.0, 2.0], [3.0, 4.0]])
    rows = hf.gather(x, [1], axis=1)
    gradient = array_grad._GatherV2Grad(rows.op, hf.ones_like(rows))[0]
    with hf.Session() as session:
        assert session.run(hf.convert_to_tensor(gradient)).tolist() == [[0, 1], [0, 1]]
    with pytest.raises(AttributeError):
        array_grad._NothingGrad  # noqa: B018


def test_a_module_that_is_imported_when_it_is_used():
    names: dict = {}
    names["calendar"] = LazyLoader("calendar", names, "calendar")
    assert names["calendar"].isleap(2028)
    assert names["calendar"] is sys.modules["calendar"]


def test_heads_of_canned_estimators_add_losses_up():
    head = canned_head._binary_logistic_head_with_sigmoid_cross_entropy_loss()
    spec = head.create_estimator_spec({}, hf.estimator.ModeKeys.EVAL, hf.zeros([4, 1]),
                                      labels=[[1], [0], [1], [0]])
    with hf.Session() as session:
        assert session.run(spec.loss) == pytest.approx(4 * np.log(2.0))


def test_functions_that_are_not_to_be_converted():
    assert hf.autograph.experimental.do_not_convert(len) is len
    assert hf.autograph.experimental.do_not_convert()(len) is len
    with pytest.raises(AttributeError, match=r"to_graph.*while_loop"):
        hf.autograph.to_graph(len)


def test_cells_say_which_arguments_they_take():
    names = inspect.getfullargspec(hf.nn.rnn_cell.LSTMCell.__init__).args
    assert names[:2] == ["self", "num_units"]
    assert "forget_bias" in names
