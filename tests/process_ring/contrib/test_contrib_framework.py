"""``hpcflow.contrib.framework``: argument scopes, variables found by scope, checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import framework


@framework.add_arg_scope
def _scaled(x, factor=1, offset=0):
    return x * factor + offset


def test_scopes_give_arguments_that_calls_do_not():
    with framework.arg_scope([_scaled], factor=3) as outer:
        assert _scaled(2) == 6
        with framework.arg_scope([_scaled], offset=1):
            assert (_scaled(2), _scaled(2, factor=1)) == (7, 3)
        assert _scaled(2) == 6
    assert _scaled(2) == 2
    with framework.arg_scope(outer):
        assert _scaled(2) == 6
    assert framework.has_arg_scope(_scaled) and not framework.has_arg_scope(len)
    assert tuple(framework.arg_scoped_arguments(_scaled)) == ("factor", "offset")


def test_scopes_end_with_errors_and_refuse_what_they_cannot_hold():
    with pytest.raises(KeyError), framework.arg_scope([_scaled], factor=3):
        raise KeyError
    assert _scaled(2) == 2
    for ops, arguments, error in ((len, {}, TypeError), ([len], {}, ValueError),
                                  ({}, {"factor": 1}, ValueError)):
        with pytest.raises(error), framework.arg_scope(ops, **arguments):
            pass


def test_variables_are_found_again(session):
    with hf.variable_scope("a") as scope:
        first = framework.model_variable("w", [2], initializer=hf.ones_initializer())
        second = framework.variable("b", [], collections=["mine"], device="/cpu:0")
    third = framework.local_variable(3.0, name="count")
    assert framework.get_variables(scope) == framework.get_model_variables("a") == [first]
    assert hf.get_collection("mine") == [second] and second.device == "/device:CPU:0"
    assert framework.get_local_variables() == [third]
    assert framework.get_variables_by_name("w") == framework.get_variables(suffix="w") == [first]
    assert framework.get_unique_variable("a/w") is first
    assert framework.get_variables_to_restore(exclude=["a"]) == []
    assert framework.filter_variables([first, second], exclude_patterns=["b$"]) == [first]
    with pytest.raises(ValueError, match="uniquely"):
        framework.get_unique_variable("a/none")


def test_values_and_checkpoints(tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        with hf.variable_scope("a"):
            w = framework.variable("w", [2])
        framework.assign_from_values_fn({"a/w": [1, 2]})(session)
        path = hf.train.Saver().save(session, str(tmp_path / "m"), 3)
        assert framework.list_variables(str(tmp_path)) == [("a/w", [2])]
        np.testing.assert_array_equal(framework.load_variable(path, "a/w"), [1, 2])
        session.run(w.assign([0.0, 0.0]))
        framework.assign_from_checkpoint_fn(path, {"a/w": w, "no": w}, True)(session)
        assert session.run(w).tolist() == [1, 2]
        operation, feeds = framework.assign_from_checkpoint(path, [w])
        session.run(w.assign([0.0, 0.0]))
        session.run(operation, feeds)
        assert session.run(w).tolist() == [1, 2]
        with pytest.raises(ValueError, match="missing"):
            framework.assign_from_checkpoint(path, {"no": w})
        assert framework.assign_from_checkpoint_fn(path, {"no": w}, True) is None


def test_devices_of_variables_in_turn():
    choose = hf.contrib.framework.VariableDeviceChooser(num_tasks=2)
    with hf.Graph().as_default(), hf.device(choose):
        devices = [hf.get_variable(f"v{i}", []).device for i in range(2)]
    assert {d.partition("/device")[0] for d in devices} <= {"/job:ps/task:0", "/job:ps/task:1"}
    assert [hf.contrib.framework.VariableDeviceChooser()(None) for _ in range(2)] == [
        "/device:CPU:0"] * 2


def test_functions_of_structures():
    def call(x, more, scale):
        return {"sum": x + more["y"], "scaled": (x * scale, np.int32(3))}

    types = {"sum": hf.float32, "scaled": (hf.float32, hf.int32)}
    with hf.Graph().as_default(), hf.Session() as session:
        x, y = hf.constant([1.0, 2.0]), hf.constant([10.0, 20.0])
        found = hf.contrib.framework.py_func(
            call, (x, {"y": y}), {"scale": hf.constant(2.0)}, types,
            lambda x, more, scale: {"sum": x.shape, "scaled": ([2], [])})
        assert found["sum"].shape == [2] and found["scaled"][1].shape == []
        values = session.run(found)
        np.testing.assert_array_equal(values["sum"], [11, 22])
        np.testing.assert_array_equal(values["scaled"][0], [2, 4])
        with pytest.raises(TypeError, match="args must be list"):
            hf.contrib.framework.py_func(call, x, None, types)
