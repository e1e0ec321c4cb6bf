"""What programs written for 1.x rely on, each seen in one."""

from __future__ import annotations

import os

import numpy as np
import pytest

import hpcflow as hf


def test_a_lookup_in_a_conditional_of_a_loop_knows_its_shape(session):
    table = hf.contrib.lookup.MutableHashTable(hf.int64, hf.string, "")
    fill = table.insert(hf.constant([1, 2, 3], hf.int64), ["a", "b", "c"])

    def joined(ids):
        return hf.foldr(lambda text, i: hf.cond(
            hf.equal(i, 0), lambda: "", lambda: table.lookup(i) + text), ids, initializer="")

    words = hf.map_fn(joined, hf.constant([[1, 2, 0], [3, 1, 1]], hf.int64), dtype=hf.string)
    session.run(fill)
    assert session.run(words).tolist() == [b"ab", b"caa"]


def test_a_list_with_one_tensor_as_the_gradient_of_a_result(session):
    x = hf.constant([[0.5, -1.0]])
    for function in (hf.tanh, hf.sigmoid, hf.sqrt, hf.rsqrt, hf.reciprocal):
        y = function(x * x)
        given = hf.ones_like(y) * 3
        plain, listed = hf.gradients(y, x, given)[0], hf.gradients(y, x, [[given]])[0]
        np.testing.assert_allclose(*session.run([plain, listed]))


def test_a_name_may_begin_with_an_underscore_inside_of_a_scope():
    with hf.name_scope("layer"):
        assert hf.identity(1.0, name="_output").op.name == "layer/_output"
    with pytest.raises(ValueError, match="not a valid scope name"):
        hf.identity(1.0, name="_output")


def test_directories_may_be_bytes(session, tmp_path):
    x = hf.get_variable("x", initializer=[1.0, 2.0])
    session.run(hf.global_variables_initializer())
    there = os.fsencode(tmp_path)
    builder = hf.saved_model.builder.SavedModelBuilder(os.path.join(there, b"model"))
    builder.add_meta_graph_and_variables(session, ["serve"])
    builder.save()
    with hf.Session(graph=hf.Graph()) as other:
        hf.saved_model.loader.load(other, ["serve"], os.path.join(there, b"model"))
        assert other.run("x:0").tolist() == [1, 2]
    saver = hf.train.Saver()
    path = saver.save(session, f"{tmp_path}/ck/m")
    saver.restore(session, os.fsencode(path))
    hf.summary.FileWriter(os.path.join(there, b"log"), session.graph).close()
    assert len(os.listdir(tmp_path / "log")) == 1
    assert session.run(x).tolist() == [1, 2]


def test_saveable_objects_are_variables_and_tables(graph):
    from hpcflow.python.ops import variables

    v = hf.get_variable("v", [])
    table = hf.contrib.lookup.MutableHashTable(hf.string, hf.int64, -1)
    first, second = variables._all_saveable_objects()
    assert first is v and second.op is table.table_ref.op
