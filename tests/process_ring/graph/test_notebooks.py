"""What a notebook sees of graphs, sessions and tensors; NumPy's functions on symbolic values."""

from __future__ import annotations

import inspect
from xml.etree import ElementTree

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def own_graph():
    with hf.Graph().as_default():
        yield


def rows(shown):
    tree = ElementTree.fromstring(shown._repr_html_())
    return {row.find("th").text: row.find("td").text for row in tree.findall("tr")}


def test_the_table_of_a_graph_and_of_a_session():
    with hf.device("/cpu:0"):
        hf.get_variable("a", [1024, 3])
    hf.Variable(hf.placeholder(hf.float32, [None]), validate_shape=False)
    hf.get_variable("b", [2], hf.float64, use_resource=True)
    seen = rows(hf.get_default_graph())
    assert seen["operations"] == str(len(hf.get_default_graph().get_operations()))
    assert seen["variables"] == "3"
    assert seen["their memory"] == "12.0 KiB, and 1 of unknown size"
    assert "/device:CPU:0" in seen["devices"] and "more" in seen["types"]
    with hf.Session() as session:
        session.run(hf.constant(1.0))
        assert rows(hf.get_default_graph()).items() <= rows(session).items()
        assert rows(session)["state"] == "open" and rows(session)["compiled steps"] == "1"
    assert rows(session)["state"] == "closed"


def test_the_table_of_a_tensor_is_escaped():
    x = hf.placeholder(hf.float32, [None, 3], name="x")
    assert rows(x) == {"name": "x:0", "dtype": "float32", "shape": "(?, 3)", "memory": "unknown",
                       "operation": "Placeholder", "device": "(not said)",
                       "value": "session.run(tensor)"}
    assert rows(hf.zeros([2, 3]))["memory"] == "24 B"
    with hf.device("/cpu:0"):
        assert "<" not in rows(hf.identity(x))["device"]


@pytest.mark.parametrize("function", [
    np.asarray, np.sqrt, lambda t: np.mean([t, t]), lambda t: np.add(t, 1.0), np.sum,
    lambda t: np.array([t], np.float32), lambda t: np.dot(np.ones(2), t)])
@pytest.mark.parametrize("make", [
    lambda: hf.constant([1.0, 2.0], name="t"), lambda: hf.get_variable("t", [2]),
    lambda: hf.get_variable("t", [2], use_resource=True)])
def test_numpy_functions_refuse_what_has_no_value_yet(function, make):
    with pytest.raises(TypeError, match=r"Tensor \(t:0\).*no value yet.*session\.run") as e:
        function(make())
    assert isinstance(e.value, NotImplementedError)  # which programs of 1.15 catch


@pytest.mark.parametrize("make", [
    lambda: hf.SparseTensor([[0]], [1.0], [2]),
    lambda: hf.IndexedSlices(hf.ones([1]), hf.constant([0])),
    lambda: hf.get_variable("t", [2], partitioner=hf.fixed_size_partitioner(2))])
def test_other_symbolic_values_are_refused_too(make):
    with pytest.raises(TypeError, match="no value yet"):
        np.asarray(make())


def test_operators_with_arrays_and_numpy_numbers_still_build_operations():
    t = hf.constant([1.0, 2.0])
    array = np.ones(2, np.float32)
    sums = [array + t, t + array, np.float32(1) + t, array * t + 1.0 - t]
    with hf.Session() as session:
        assert [v.tolist() for v in session.run(sums)] == [[2, 3]] * 3 + [[1, 1]]


def test_raw_ops_are_completed_and_have_signatures():
    assert {"MatMul", "Conv2D", "Add"} <= set(dir(hf.raw_ops))
    signature = inspect.signature(hf.raw_ops.MatMul)
    assert list(signature.parameters) == ["a", "b", "transpose_a", "transpose_b", "name"]
    assert signature.parameters["transpose_a"].default is False
