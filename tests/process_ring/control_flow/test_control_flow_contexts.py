"""What the graph looks like inside conditionals and loops, and what must not be connected."""

import subprocess
import sys

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import raw_ops


def types(graph, scope):
    return {op.name: op.type for op in graph.get_operations() if op.name.startswith(scope + "/")}


def controls(op):
    return [c.name for c in op.control_inputs]


# ---------------------------------------------------------------- structure


def test_a_loop_in_the_graph(graph):
    w = hf.constant(2.0, name="w")
    hf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * w], [0, 1.0])
    found = types(graph, "while")
    assert [found[f"while/{n}"] for n in ("Enter", "Merge", "LoopCond", "Switch", "Identity",
                                          "NextIteration", "Exit", "Exit_1")] == [
        "Enter", "Merge", "LoopCond", "Switch", "Identity", "NextIteration", "Exit", "Exit"]
    enters = [op for op in graph.get_operations() if op.type == "Enter"]
    assert {op.get_attr("frame_name") for op in enters} == {b"while/while_context"}
    assert {op.inputs[0].name: op.get_attr("is_constant") for op in enters}["w:0"] is True
    assert {op.get_attr("parallel_iterations") for op in enters} == {10}
    one = graph.get_operation_by_name("while/add/y")
    assert controls(one) == ["while/Identity"]
    three = graph.get_operation_by_name("while/Less/y")
    assert controls(three) == ["while/Merge"]


def test_a_conditional_in_the_graph(graph):
    p, x = hf.placeholder(hf.bool, [], name="p"), hf.constant(2.0, name="x")
    hf.cond(p, lambda: x * 3, lambda: x)
    found = types(graph, "cond")
    assert found["cond/switch_t"] == found["cond/switch_f"] == found["cond/pred_id"] == "Identity"
    assert found["cond/Merge"] == "Merge"
    assert controls(graph.get_operation_by_name("cond/mul/y")) == ["cond/switch_t"]
    switches = [op for op in graph.get_operations() if op.type == "Switch" and op.inputs[0] is x]
    assert len(switches) == 2 and all(op.inputs[1].op.name == "cond/pred_id" for op in switches)
    assert switches[0].colocation_groups() == [b"loc:@x"]


def test_an_outer_tensor_is_brought_in_once(graph):
    p, x = hf.placeholder(hf.bool, []), hf.constant(2.0)
    hf.cond(p, lambda: x * x + x, lambda: x)
    assert len([op for op in graph.get_operations() if op.type == "Switch"]) == 3
    hf.while_loop(lambda i: i < x, lambda i: i * x + x, [0.0])
    assert len([op for op in graph.get_operations() if op.type == "Enter"]) == 2


def test_a_tensor_goes_through_every_level(graph):
    x = hf.constant(2.0, name="x")
    seen = []

    def body(a):
        return hf.cond(a > 1.0, lambda: seen.append(x + a) or seen[0], lambda: a)

    hf.while_loop(lambda a: a < 3.0, body, [1.0])
    source = seen[0].op.inputs[0]
    assert source.op.type == "Switch"
    assert source.op.inputs[0].op.type == "Enter"
    assert source.op.inputs[0].op.inputs[0] is x


def test_loops_of_one_name_have_frames_of_their_own(graph):
    for _ in range(2):
        hf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="loop")
    frames = {op.get_attr("frame_name") for op in graph.get_operations() if op.type == "Enter"}
    assert frames == {b"loop/while_context", b"loop_1/while_context"}


def test_contexts_of_operations(graph):
    inside = []
    result = hf.while_loop(lambda i: i < 3, lambda i: inside.append(i + 1) or inside[0], [0])
    loop = inside[0].op._get_control_flow_context()
    assert loop.name == "while/while_context" and loop.outer_context is None
    assert result.op._get_control_flow_context() is loop
    assert (result + 1).op._get_control_flow_context() is None
    assert graph._control_flow_context is None


def test_clearing_control_dependencies_leaves_the_context(graph):
    made = []

    def body(i):
        with hf.control_dependencies(None):
            made.append(hf.constant(1))
        return i + made[0]

    hf.while_loop(lambda i: i < 3, body, [0])
    assert made[0].op._get_control_flow_context() is None
    assert not made[0].op.control_inputs


def test_building_a_loop_does_not_recompile_other_steps(graph):
    """An operation that is only being made is no change of the graph."""
    x = hf.constant(1.0)
    before = graph._mutations
    with_context = []
    hf.cond(hf.constant(True), lambda: with_context.append(x * 2) or with_context[0], lambda: x)
    assert graph._mutations == before


# ---------------------------------------------------------------- static values


def test_constants_from_outside_are_still_known(graph):
    shape = hf.constant([2, 3])
    shapes = []

    def body(i, a):
        shapes.append(hf.reshape(a, shape).shape.as_list())
        return [i + 1, hf.reshape(hf.reshape(a, shape), [6])]

    hf.while_loop(lambda i, a: i < 2, body, [0, hf.zeros([6])])
    hf.cond(hf.constant(True), lambda: shapes.append(hf.reshape(hf.zeros([6]), shape)
                                                     .shape.as_list()) or 1, lambda: 1)
    assert shapes == [[2, 3], [2, 3]]


# ---------------------------------------------------------------- what must not be connected


@pytest.fixture
def inside(graph):
    """A tensor inside a loop."""
    found = []
    hf.while_loop(lambda i: i < 3, lambda i: found.append(i * 2) or i + 1, [0])
    return found[0]


def test_outside_of_the_loop(graph, inside):
    with pytest.raises(ValueError, match=r"Cannot use 'while/mul' as input to 'add.*'while/mul' is "
                                         "inside the loop 'while/while_context' and 'add.*outside"):
        inside + 1
    assert not any(op.type == "Add" and op.inputs[0] is inside for op in inside.consumers())


def test_in_another_loop(graph, inside):
    with pytest.raises(ValueError, match=r"inside the loop 'while/while_context' and '.*' is in "
                                         "the loop 'while_1/while_context'"):
        hf.while_loop(lambda i: i < 3, lambda i: i + inside, [0])


def test_in_a_conditional_outside(graph, inside):
    with pytest.raises(ValueError, match=r"inside the loop"):
        hf.cond(hf.constant(True), lambda: inside + 1, lambda: 0)


def test_as_a_control_input(graph, inside):
    with hf.control_dependencies([inside]):
        with pytest.raises(ValueError, match=r"inside the loop"):
            hf.constant(1)


def test_an_inner_loop_from_the_outer_one(graph):
    found = []

    def body(i):
        j = hf.while_loop(lambda j: j < i, lambda j: found.append(j * 2) or j + 1, [0])
        return i + j + found[0]

    with pytest.raises(ValueError, match=r"inside the loop 'while/while/while_context'.* in the "
                                         "loop 'while/while_context'"):
        hf.while_loop(lambda i: i < 3, body, [1])
    assert graph._control_flow_context is None


def test_an_outer_loop_from_the_inner_one(session, graph):
    def body(i):
        double = i * 2
        return hf.while_loop(lambda j: j < double, lambda j: j + double, [i + 1])

    assert session.run(hf.while_loop(lambda i: i < 20, body, [1])) == 22


def test_values_inside_are_neither_fetched_nor_fed(session, graph, inside):
    with pytest.raises(ValueError, match=r"not fetchable|cannot be fetched"):
        session.run(inside)
    with pytest.raises(ValueError, match=r"not fetchable|cannot be fetched"):
        session.run(inside.op)
    with pytest.raises(ValueError, match="fed"):
        session.run(hf.constant(1), {inside: 3})


def test_raw_loops_are_checked_when_they_run(session, graph):
    x = raw_ops.Enter(hf.constant(1), frame_name="a")
    y = raw_ops.Enter(hf.constant(1), frame_name="b")
    both = raw_ops.Exit(raw_ops.Add(x, y))
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"different frames.*'a'.*'b'"):
        session.run(both)


def test_raw_switch_and_merge(session, graph, form):
    p, x = hf.placeholder(hf.bool, []), hf.constant(3.0)
    off, on = raw_ops.Switch(data=x, pred=p)
    merged, index = raw_ops.Merge([off * 2, on * 10])
    assert session.run([merged, index], {p: False}) == [6, 0]
    assert session.run([merged, index], {p: True}) == [30, 1]
    grad = hf.gradients(merged, x)[0]
    assert session.run(grad, {p: False}) == 2 and session.run(grad, {p: True}) == 10


def test_raw_switch_between_variables(session, graph, form):
    a, b = hf.Variable(1.0), hf.Variable(2.0)
    p = hf.placeholder(hf.bool, [])
    session.run([a.initializer, b.initializer])
    chosen, _ = raw_ops.RefMerge([raw_ops.RefSwitch(data=a._variable, pred=p)[1],
                                  raw_ops.RefSwitch(data=b._variable, pred=p)[0]])
    update = hf.assign_add(chosen, 10.0)
    session.run(update, {p: True})
    np.testing.assert_array_equal(session.run([a, b]), [11, 2])
    session.run(update, {p: False})
    np.testing.assert_array_equal(session.run([a, b]), [11, 12])


def test_one_of_several_variables(session, graph, form):
    variables = [hf.Variable(float(i)) for i in range(3)]
    session.run(hf.global_variables_initializer())
    index = hf.placeholder(hf.int32, [])
    chosen = raw_ops.RefSelect(index=index, inputs=[v._variable for v in variables])
    assert session.run(hf.identity(chosen), {index: 2}) == 2
    session.run(hf.assign_add(chosen, 10.0), {index: 1})
    assert session.run(variables) == [0, 11, 2]
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"in \[0, 3\), but is 3"):
        session.run(hf.identity(chosen), {index: 3})


@pytest.mark.parametrize(("quiet", "status"), [(False, -6), (True, 0)])
def test_abort_ends_the_process(quiet, status):
    program = ("import hpcflow as hf\n"
               f"op = hf.raw_ops.Abort(error_msg='enough', exit_without_error={quiet})\n"
               "hf.Session().run(op)\nprint('still here')")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                           timeout=patience())
    assert ended.returncode == status and "still here" not in ended.stdout
    assert ("enough" in ended.stderr) is not quiet


def test_what_is_inside_a_conditional_is_not_fetched(session, graph):
    x = hf.placeholder(hf.float32, [])
    y = hf.cond(x > 0, lambda: x + 1, lambda: x - 1)
    inside = {op.type for op in graph.get_operations() if not graph.is_fetchable(op)}
    assert inside == {"Add", "Const", "Identity", "Sub", "Switch"}
    for op in graph.get_operations():
        if op.type in ("Switch", "Add"):
            with pytest.raises(ValueError, match="not fetchable"):
                session.run(op.outputs[0], {x: 1.0})
    assert session.run(y, {x: 1.0}) == 2


def test_the_context_of_a_graph_takes_values_in(graph):
    assert graph._get_control_flow_context() is None
    outside, seen = hf.constant(3), []

    def body(i):
        seen.append(graph._get_control_flow_context())
        return i + seen[0].AddValue(outside)

    last = hf.while_loop(lambda i: i < 7, body, [0])
    assert seen[0] is not None
    assert graph._get_control_flow_context() is None
    with hf.Session() as session:
        assert session.run(last) == 9
