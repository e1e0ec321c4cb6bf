"""Context managers that are entered again, one after the other and inside of themselves."""

from __future__ import annotations

import pytest

import hpcflow as hf


def made():
    return hf.exp(hf.constant(1.0)).op


@pytest.mark.parametrize("manager, seen", [
    (lambda: hf.control_dependencies([hf.no_op("first")]),
     lambda op: op.inputs[0].op.control_inputs[0].name),
    (lambda: hf.control_dependencies(x for x in [hf.no_op("first")]),
     lambda op: op.inputs[0].op.control_inputs[0].name),
    (lambda: hf.device("/cpu:3"), lambda op: op.device),
    (lambda: hf.colocate_with(hf.no_op("there")), lambda op: op.colocation_groups()),
    (lambda: hf.get_default_graph().gradient_override_map({"Exp": "Mine"}),
     lambda op: op.get_attr("_gradient_op_type")),
    (lambda: hf.contrib.framework.arg_scope([hf.contrib.layers.conv2d], stride=2),
     lambda op: sorted(hf.contrib.framework.current_arg_scope())),
    (lambda: hf.init_scope(), lambda op: op.control_inputs),
    (lambda: hf.get_default_graph().as_default(), lambda op: op.graph),
], ids=["control", "generator", "device", "colocate", "override", "arguments", "init", "graph"])
def test_managers_may_be_entered_again(manager, seen):
    with hf.Graph().as_default():
        entered, found = manager(), []
        with entered:
            found.append(seen(made()))
            with entered:
                found.append(seen(made()))
            found.append(seen(made()))
        with entered:
            found.append(seen(made()))
        assert found == [found[0]] * 4
        assert made().control_inputs == []
        assert not made().device


def test_scopes_of_names_may_be_entered_again():
    with hf.Graph().as_default():
        names, variables = hf.name_scope("n"), hf.variable_scope("v", reuse=hf.AUTO_REUSE)
        for expected in ("n/Exp", "n_1/Exp"):
            with names:
                assert made().name == expected
        for expected in ("v/Exp", "v_1/Exp"):
            with variables as scope:
                assert (hf.get_variable("w", []).name, scope.name) == ("v/w:0", "v")
                assert made().name == expected
        with names, names, pytest.raises(KeyError), names:
            raise KeyError
        assert made().name == "Exp"
