"""``train.init_from_checkpoint``: initializers that read a checkpoint."""

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


@pytest.fixture
def checkpoint(tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        with hf.variable_scope("old"):
            hf.get_variable("w", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
            hf.get_variable("inner/b", initializer=[5.0, 6.0])
        hf.get_variable("count", initializer=3)
        session.run(hf.global_variables_initializer())
        return hf.train.Saver().save(session, str(tmp_path / "model"))


def initialized(*variables):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(list(variables))


def test_scopes_names_and_variables(checkpoint):
    with hf.variable_scope("new"):
        w, b = hf.get_variable("w", [4, 2]), hf.get_variable("inner/b", [2])
    count = hf.get_variable("steps", [], hf.int32, hf.zeros_initializer())
    other = hf.get_variable("other", [2])
    hf.train.init_from_checkpoint(checkpoint, {
        "old/": "new/", "count": "steps", "old/inner/b": other})
    got = initialized(w, b, count, other)
    np.testing.assert_array_equal(got[0], np.arange(8).reshape(4, 2))
    assert [list(got[1]), got[2], list(got[3])] == [[5, 6], 3, [5, 6]]


def test_a_directory_and_everything_in_it(checkpoint, tmp_path):
    with hf.variable_scope("old"):
        w = hf.get_variable("w", [4, 2])
    hf.train.init_from_checkpoint(str(tmp_path), [("/", "/")])
    np.testing.assert_array_equal(initialized(w)[0], np.arange(8).reshape(4, 2))


def test_parts_of_a_variable(checkpoint):
    w = hf.get_variable("mine", [4, 2], partitioner=hf.fixed_size_partitioner(3))
    hf.train.init_from_checkpoint(checkpoint, {"old/w": "mine"})
    np.testing.assert_array_equal(initialized(w.as_tensor())[0], np.arange(8).reshape(4, 2))
    with hf.Session() as session:
        session.run([part.initializer for part in w])
        np.testing.assert_array_equal(session.run(list(w)[1]), [[4, 5]])


def test_what_does_not_fit(checkpoint):
    v = hf.get_variable("v", [3])
    with pytest.raises(ValueError, match="Tensor absent is not found"):
        hf.train.init_from_checkpoint(checkpoint, {"absent": v})
    with pytest.raises(ValueError, match=r"Shape of variable v:0 \(\(3,\)\) doesn't match"):
        hf.train.init_from_checkpoint(checkpoint, {"old/w": "v"})
    with pytest.raises(ValueError, match="should map to scope only"):
        hf.train.init_from_checkpoint(checkpoint, {"old/w": "scope/"})


def test_reading_a_checkpoint(checkpoint):
    assert hf.train.list_variables(checkpoint)[0] == ("count", [])
    assert hf.train.load_variable(checkpoint, "count") == 3
    assert hf.train.load_checkpoint(checkpoint).has_tensor("old/w")


def test_what_the_added_operations_are_called(checkpoint):
    handle = hf.get_variable("h", [2], use_resource=True)
    before = set(hf.get_default_graph().get_operations())
    with hf.name_scope("begin"):
        hf.train.init_from_checkpoint(checkpoint, {"old/inner/b": handle})
    added = [op for op in hf.get_default_graph().get_operations() if op not in before]
    assert "begin/checkpoint_initializer" in [op.name for op in added]
    assert not [op for op in added if op.type == "ReadVariableOp"]
    np.testing.assert_array_equal(initialized(handle), [[5, 6]])
