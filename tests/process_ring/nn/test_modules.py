"""Module: the variables and modules among the attributes of an object."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.eager import monitoring


class Product(hf.Module):
    def __init__(self, inputs, outputs, name=None):
        super().__init__(name)
        self.w = hf.Variable(hf.ones([inputs, outputs]), name="w")
        self.b = hf.Variable(hf.zeros([outputs]), name="b", trainable=False)

    @hf.Module.with_name_scope
    def __call__(self, x):
        return hf.add(hf.matmul(x, self.w), self.b, name="sum")


class Chain(hf.Module):
    _TF_MODULE_IGNORED_PROPERTIES = frozenset(["hidden"])

    def __init__(self):
        super().__init__()
        self.parts = [Product(2, 3), {"last": Product(3, 1, name="other")}]
        self.again, self.itself, self.number = self.parts[0], self, 3
        self.first = hf.layers.Dense(2)
        self.hidden = hf.Variable(1.0, name="hidden")


@pytest.mark.usefixtures("graph")
def test_what_is_found():
    chain = Chain()
    chain.first(hf.zeros([1, 2]))
    names = [v.op.name for v in chain.variables]
    assert names[:2] + names[-2:] == ["b", "w", "b_1", "w_1"]
    assert {v.op.name for v in chain.trainable_variables} == {
        "w", "w_1", "dense/kernel", "dense/bias"}
    assert [m.name for m in chain.submodules] == ["product", "dense_1", "other"]
    assert isinstance(chain.first, hf.Module)


@pytest.mark.usefixtures("graph")
def test_names_and_scopes():
    chain = Chain()
    assert [chain.parts[0](hf.zeros([1, 2])).op.name for _ in range(2)] == [
        "product/sum", "product/sum_1"]
    with chain.name_scope:
        assert hf.constant(1, name="one").op.name == "chain/one"
    assert type("HTTPNetV2", (hf.Module,), {})().name == "http_net_v2"
    with pytest.raises(ValueError, match="'a-b' is not a valid module name"):
        Product(1, 1, name="a-b")


def test_modules_in_checkpoints(graph, tmp_path):
    module = Product(1, 1)
    checkpoint = hf.train.Checkpoint(net=[module])
    with hf.Session(graph=graph) as session:
        session.run(hf.global_variables_initializer())
        session.run(module.w.assign([[5.0]]))
        path = checkpoint.save(str(tmp_path / "c"), session)
        session.run(module.w.assign([[0.0]]))
        checkpoint.restore(path).assert_consumed().run_restore_ops(session)
        np.testing.assert_array_equal(session.run(module.w), [[5.0]])


def test_counters_and_gauges():
    counter = monitoring.Counter("/test/counter", "of tests", "kind")
    counter.get_cell("a").increase_by(2)
    assert (counter.get_cell("a").value(), counter.get_cell("b").value()) == (2, 0)
    gauge = monitoring.BoolGauge("/test/gauge", "of tests").get_cell()
    assert gauge.value() is False
    gauge.set(True)
    assert gauge.value() is True
    with pytest.raises(ValueError, match="only grows"):
        counter.get_cell("a").increase_by(-1)
    assert counter.get_cell("a").value() == 2
    with pytest.raises(ValueError, match="0 labels instead of 1: kind"):
        counter.get_cell()
    with pytest.raises(hf.errors.AlreadyExistsError):
        monitoring.StringGauge("/test/gauge", "of tests")
