"""Texts of hyperparameters, and tables made and looked up in one call."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import lookup
from hpcflow.contrib.training import HParams, parse_values
from hpcflow.python.framework import test_util
from hpcflow.python.ops import random_ops


def test_a_text_gives_values_to_names():
    kinds = {"x": int, "arr": float, "on": bool, "name": str}
    text = "x=3,arr[0]=1.5,arr[2]=2,on=true,name=a b"
    assert parse_values(text, kinds) == {
        "x": 3, "arr": {0: 1.5, 2: 2.0}, "on": True, "name": "a b"}
    assert parse_values("arr=[1,2],y=5", kinds, ignore_unknown=True) == {"arr": [1.0, 2.0]}


@pytest.mark.parametrize(("text", "message"), [
    ("y=1", "Unknown hyperparameter type for y"), ("x=1,x=2", "Multiple assignments to variable"),
    ("arr[0]=1,arr[0]=2", r"variable 'arr\[0\]'"), ("arr=[1],arr[0]=2", "variable 'arr'"),
    ("arr[0]=1,arr=[2]", "variable 'arr'"), ("arr[1]=[1]", "Assignment of a list to a list index"),
    ("x=a", "Could not parse"), ("x", "Malformed"),
])
def test_texts_that_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_values(text, {"x": int, "arr": float})


def test_hyperparameters_are_parsed_and_removed():
    hparams = HParams(rate=0.1, sizes=[1, 2, 3])
    hparams.parse("sizes[1]=7,rate=2")
    assert hparams.values() == {"rate": 2.0, "sizes": [1, 7, 3]}
    hparams.del_hparam("rate")
    assert "rate" not in hparams and hparams.get("rate") is None
    with pytest.raises(ValueError, match="Must not pass a list"):
        HParams(rate=0.1).parse("rate[0]=1")


def test_hyperparameters_keep_their_types():
    hparams = HParams(rate=0.1, sizes=[1, 2], name="x", graph=hf.Graph())
    assert str(HParams(rate=0.5, sizes=[1, 2])) == "rate=0.5,sizes=[1, 2]"
    assert HParams(sizes=[3], rate=0.5).parse("sizes=[1, 2],rate=2").values() == {
        "sizes": [1, 2], "rate": 2.0}
    other = hf.Graph()
    hparams.set_hparam("graph", other)
    assert hparams.graph is other and hparams.get("rate", 1) == 0.1
    for name, default in (("rate", False), ("sizes", 1), ("sizes", [1.5]), ("name", 3)):
        with pytest.raises(ValueError, match=name):
            hparams.get(name, default)
    with pytest.raises(ValueError, match="Could not cast"):
        hparams.set_hparam("sizes", [1.0])


def test_words_become_numbers_and_back(session):
    words = hf.constant(["a", "b", "c"])
    numbers = lookup.string_to_index(hf.constant(["c", "x", "a"]), words)
    texts = lookup.index_to_string(hf.constant([1, 9], hf.int64), words)
    session.run(hf.tables_initializer())
    assert session.run(numbers).tolist() == [2, -1, 0]
    assert session.run(texts).tolist() == [b"b", b"UNK"]


@pytest.mark.parametrize(("op", "values", "message"), [
    (hf.slice, (np.arange(10), 2, 3), "Expected begin and size arguments to be 1-D tensors"),
    (hf.tile, ([7], 2), "Expected multiples to be 1-D"),
    (random_ops.random_uniform, (3,), "shape must be a vector"),
])
def test_scalars_are_no_vectors_for_programs_of_any_version(op, values, message):
    graph = hf.Graph()
    test_util.set_producer_version(graph, 5)
    assert graph.graph_def_versions.producer == 5
    with graph.as_default(), hf.Session() as session:
        arrays = [np.asarray(v, np.int32) for v in values]
        fed = [hf.placeholder(hf.int32) for _ in arrays]
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(op(*fed), dict(zip(fed, arrays)))


def test_last_dimensions_of_one_are_taken_away(session):
    from hpcflow.python.ops import metrics_impl

    found = metrics_impl._remove_squeezable_dimensions(
        hf.zeros([3]), hf.zeros([3, 1]), hf.zeros([3, 1]))
    assert [t.shape.as_list() for t in found] == [[3]] * 3
    assert metrics_impl._remove_squeezable_dimensions(hf.zeros([3]), None, None)[1:] == (None, None)


def test_counts_at_thresholds(session):
    from hpcflow.python.ops import metrics_impl

    values, updates = metrics_impl._confusion_matrix_at_thresholds(
        [True, False, True], [0.9, 0.6, 0.2], [0.5, 0.1], includes=("tp", "fp"))
    session.run(hf.local_variables_initializer())
    session.run(updates)
    found = session.run(values)
    assert found["tp"].tolist() == [1, 2] and found["fp"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="Invalid key"):
        metrics_impl._confusion_matrix_at_thresholds([True], [0.5], [0.5], includes=["x"])
