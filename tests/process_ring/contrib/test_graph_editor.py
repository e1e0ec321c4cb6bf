"""Selecting, copying and rerouting parts of a graph."""

import pytest

import hpcflow as hf
from hpcflow.contrib import graph_editor as ge


@pytest.fixture
def parts(graph):
    x = hf.constant(3.0, name="x")
    w = hf.Variable(2.0, name="w")
    with hf.name_scope("body"):
        y = hf.multiply(x, w, name="y")
        z = hf.add(y, y, name="z")
    return graph, x, w, y, z


def run(*fetches):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(list(fetches))


def test_selections(parts):
    graph, x, _, y, z = parts
    assert ge.get_forward_walk_ops(x.op, inclusive=False) == [y.op, z.op]
    back = ge.get_backward_walk_ops(z, stop_at_ts=[y])
    assert back == [z.op]
    assert {x.op, y.op} <= set(ge.get_backward_walk_ops([z.op]))
    assert ge.filter_ts(ge.sgv_scope("body", graph).ops, True) == [y, z]
    assert ge.filter_ts_from_regex(graph, "^body/z") == [z]
    assert ge.select_ops("body/", graph=graph) == [y.op, z.op]
    view = ge.sgv([y.op, z.op])
    assert view.outputs == [z] and x in view.inputs
    with pytest.raises(ValueError, match="graph"):
        ge.select_ops("body/")
    with pytest.raises(TypeError, match="Expected a type in"):
        ge.make_list_of_t([y.op])


def test_a_graph_is_computed_again_with_other_tensors(parts):
    _, x, w, _, z = parts
    other = hf.constant(5.0)
    again = ge.graph_replace(z, {x: other})
    both = ge.graph_replace({"a": z, "b": x}, {x: other}, dst_scope="again")
    assert both["a"].op.name == "again/body/z" and both["b"] is other
    slope = hf.gradients(again, w)[0]
    assert run(z, again, both["a"], slope) == [12, 20, 20, 10]
    with pytest.raises(ValueError, match="not connected"):
        ge.graph_replace(z, {hf.constant(1.0): other})


def test_what_is_read_changes(parts):
    _, x, _, y, z = parts
    copied, info = ge.copy_with_input_replacements(ge.sgv([y.op, z.op]), {})
    new = info.transformed(z)
    assert info.original(new) is z and len(copied.ops) == 2
    assert ge.reroute_ts([x], [y], can_modify=[z.op]) == 2
    assert run(z, new) == [6, 12]
    more = hf.constant(7.0)
    ge.swap_ts([x], [more])
    assert run(z, new) == [14, 28]
    with pytest.raises(ValueError, match="sizes"):
        ge.reroute_ts([x, y], [z])


def test_control_inputs(parts):
    _, _, w, _, z = parts
    step = hf.assign_add(w, 1.0).op
    ge.add_control_inputs(z.op, step)
    with pytest.raises(ValueError, match="already"):
        ge.add_control_inputs(z.op, step)
    ge.remove_control_inputs(z.op, step)
    assert z.op.control_inputs == []


def test_a_view_with_other_inputs_and_outputs(parts):
    _, x, _, y, z = parts
    view = ge.sgv([y.op, z.op])
    assert view.remap_inputs([x]).inputs == [x]
    assert view.remap_outputs([0, 0]).outputs == [z, z]
    assert view.remap_outputs([0, 0]).remap_default().outputs == [z]
    with pytest.raises(ValueError, match="repetition"):
        view.remap_inputs([0, 0])
    with pytest.raises(ValueError, match="Out of"):
        view.remap_outputs([1])
    with pytest.raises(ValueError, match="different sizes"):
        ge.bypass(view)


def test_a_view_is_detached_and_connected_with_another(parts):
    _, x, _, y, z = parts
    other = hf.negative(x, name="other")
    read = hf.identity(z, name="read")
    ge.connect(ge.sgv(other.op), ge.sgv(read.op))
    assert run(read) == [-3]
    _, made = ge.detach_inputs(ge.sgv(read.op))
    assert [t.name for t in made] == ["geph__other_0:0"] and read.op.inputs[0] is made[0]
    ge.swap_inputs(ge.sgv(read.op), ge.sgv(other.op))
    assert run(read) == [3]
    ge.reroute_outputs(ge.sgv(other.op), ge.sgv(x.op))
    assert y.op.inputs[0] is other
    ge.bypass(ge.sgv(other.op))
    assert y.op.inputs[0] is made[0]


def test_who_waits_counts_where_it_is_asked_for(parts):
    graph, _, _, y, z = parts
    with hf.control_dependencies([z]):
        after = hf.constant(1.0, name="after")
    waiting = ge.ControlOutputs(graph)
    assert after.op not in ge.get_forward_walk_ops(y.op)
    assert after.op in ge.get_forward_walk_ops(y.op, control_outputs=waiting)
    assert ge.get_walks_intersection_ops(y.op, after.op) == []
    assert ge.get_walks_intersection_ops(y.op, after.op, control_ios=waiting) == [
        y.op, z.op, after.op]
    assert ge.select_ops("(?#ts)body", "after", graph=graph) == [after.op]
    with pytest.raises(TypeError, match="ControlOutputs"):
        ge.get_ops_ios(y.op, control_ios=graph)
    ge.detach(ge.sgv(z.op), control_ios=waiting)
    assert after.op.control_inputs == []


def test_copies_in_another_graph(graph):
    from hpcflow.contrib import copy_graph

    x = hf.placeholder("float32", [], name="x")
    weight = hf.Variable(3.0, name="weight")
    with hf.control_dependencies([hf.no_op(name="first")]):
        y = hf.while_loop(lambda i: i < 20.0, lambda i: i * weight, [x])
    other = hf.Graph()
    for scope in ("", "below"):
        copied = copy_graph.copy_variable_to_graph(weight, other, scope)
        z = copy_graph.copy_op_to_graph(y, other, [copied], scope)
        assert z is copy_graph.copy_op_to_graph(y, other, [copied], scope)
        assert z.name == (f"{scope}/{y.name}" if scope else y.name)
        with hf.Session(graph=other) as session:
            session.run(copied.initializer)
            fed = copy_graph.get_copied_op(x, other, scope)
            assert session.run(z, {fed: 1.0}) == 27.0
        assert copied in other.get_collection(hf.GraphKeys.TRAINABLE_VARIABLES)
    with pytest.raises(TypeError, match="not a Variable"):
        copy_graph.copy_variable_to_graph(y, other)
    with pytest.raises(KeyError):
        copy_graph.get_copied_op(x, hf.Graph())
