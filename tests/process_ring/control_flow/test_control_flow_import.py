"""Conditionals and loops of GraphDefs that other programs wrote."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops as raw
from hpcflow.framework import function

pytestmark = pytest.mark.usefixtures("form")


def graph_def(text):
    """A GraphDef of lines ``name type inputs ... attribute=value ...``.

    Types are named as in the format, strings are quoted, constants are ``dtype:value``.
    """
    proto = hf.GraphDef()
    for line in text.strip().splitlines():
        name, op, *rest = line.split()
        node = proto.node.add(name=name, op=op)
        for part in rest:
            key, equals, value = part.partition("=")
            if not equals:
                node.input.append(part)
            else:
                set_attr(node.attr[key], value)
                if value.partition(":")[1]:
                    node.attr["dtype"].type = node.attr[key].tensor.dtype
    return proto


def set_attr(attr, value):
    if value[0] == "'":
        attr.s = value.strip("'").encode()
    elif value in ("true", "false"):
        attr.b = value == "true"
    elif ":" in value:
        dtype, _, number = value.partition(":")
        with hf.Graph().as_default():
            const = hf.constant(eval(number), dtype).op.node_def
        attr.tensor.CopyFrom(const.attr["value"].tensor)
    elif value.lstrip("-").isdigit():
        attr.i = int(value)
    else:
        attr.type = hf.as_dtype(value).as_datatype_enum


CONDITIONAL = """
    x Placeholder dtype=float32
    p Placeholder dtype=bool
    cond/Switch Switch p p T=bool
    cond/switch_t Identity cond/Switch:1 T=bool
    cond/switch_f Identity cond/Switch T=bool
    cond/pred_id Identity p T=bool
    cond/two Const ^cond/switch_t value=float32:2.0
    cond/double Mul cond/on:1 cond/two T=float32
    cond/on Switch x cond/pred_id T=float32
    cond/one Const ^cond/switch_f value=float32:1.0
    cond/next AddV2 cond/off cond/one T=float32
    cond/off Switch x cond/pred_id T=float32
    cond/Merge Merge cond/next cond/double T=float32 N=2
    y Identity cond/Merge T=float32
"""

# y = x**4 by a loop; back/... is the gradient, with a stack and, as 1.15 leaves some, an Enter that
# nothing reads.
LOOP = """
    x Placeholder dtype=float32
    zero Const value=int32:0
    while/i Enter zero T=int32 frame_name='while/frame'
    while/a Enter x T=float32 frame_name='while/frame' parallel_iterations=2
    while/x Enter x T=float32 frame_name='while/frame' is_constant=true
    while/stack Enter back/stack T=resource frame_name='while/frame' is_constant=true
    while/count Enter zero T=int32 frame_name='while/frame'
    while/Merge Merge while/i while/next_i T=int32 N=2
    while/Merge_1 Merge while/a while/next_a T=float32 N=2
    while/Merge_2 Merge while/count while/next_count T=int32 N=2
    while/three Const ^while/Merge value=int32:3
    while/Less Less while/Merge while/three T=int32
    while/LoopCond LoopCond while/Less
    while/Switch Switch while/Merge while/LoopCond T=int32
    while/Switch_1 Switch while/Merge_1 while/LoopCond T=float32
    while/Switch_2 Switch while/Merge_2 while/LoopCond T=int32
    while/Identity Identity while/Switch:1 T=int32
    while/Identity_1 Identity while/Switch_1:1 T=float32
    while/one Const ^while/Identity value=int32:1
    while/add AddV2 while/Identity while/one T=int32
    while/mul Mul while/Identity_1 while/x T=float32
    while/add_1 AddV2 while/Switch_2:1 while/one T=int32
    while/push StackPushV2 while/stack while/Identity_1 ^while/add_1 T=float32
    while/next_i NextIteration while/add T=int32
    while/next_a NextIteration while/mul T=float32
    while/next_count NextIteration while/add_1 ^while/push T=int32
    while/Exit Exit while/Switch T=int32
    while/Exit_1 Exit while/Switch_1 T=float32
    while/Exit_2 Exit while/Switch_2 T=int32
    y Identity while/Exit_1 T=float32
    back/size Const value=int32:-1
    back/stack StackV2 back/size elem_type=float32
    back/ones Const value=float32:1.0
    back/zeros Const value=float32:0.0
    back/one Const value=int32:1
    back/count Enter while/Exit_2 T=int32 frame_name='back/frame'
    back/grad Enter back/ones T=float32 frame_name='back/frame'
    back/sum Enter back/zeros T=float32 frame_name='back/frame'
    back/unread Enter back/zeros T=float32 frame_name='back/frame'
    back/e1 Enter back/one T=int32 frame_name='back/frame' is_constant=true
    back/ex Enter x T=float32 frame_name='back/frame' is_constant=true
    back/estack Enter back/stack T=resource frame_name='back/frame' is_constant=true
    back/Merge Merge back/count back/next_count T=int32 N=2
    back/Merge_1 Merge back/grad back/next_grad T=float32 N=2
    back/Merge_2 Merge back/sum back/next_sum T=float32 N=2
    back/GreaterEqual GreaterEqual back/Merge back/e1 T=int32
    back/LoopCond LoopCond back/GreaterEqual
    back/Switch Switch back/Merge back/LoopCond T=int32
    back/Switch_1 Switch back/Merge_1 back/LoopCond T=float32
    back/Switch_2 Switch back/Merge_2 back/LoopCond T=float32
    back/Sub Sub back/Switch:1 back/e1 T=int32
    back/pop StackPopV2 back/estack ^back/Sub elem_type=float32
    back/sync ControlTrigger ^back/pop
    back/mul Mul back/Switch_1:1 back/ex T=float32
    back/mul_1 Mul back/Switch_1:1 back/pop T=float32
    back/add AddV2 back/Switch_2:1 back/mul_1 T=float32
    back/next_count NextIteration back/Sub ^back/sync T=int32
    back/next_grad NextIteration back/mul T=float32
    back/next_sum NextIteration back/add T=float32
    back/Exit Exit back/Switch_1 T=float32
    back/Exit_1 Exit back/Switch_2 T=float32
    g AddN back/Exit back/Exit_1 T=float32 N=2
"""

# y[i] = x[i] ** 2 for a vector of three, by arrays in a loop.
ARRAYS = """
    x Placeholder dtype=float32
    size Const value=int32:3
    all Const value=int32:[0,1,2]
    zero Const value=int32:0
    a TensorArrayV3 size dtype=float32 identical_element_shapes=true
    b TensorArrayV3 size dtype=float32 dynamic_size=true tensor_array_name='b'
    fill TensorArrayScatterV3 a all x a:1 T=float32
    w/i Enter zero T=int32 frame_name='frame'
    w/flow Enter b:1 T=float32 frame_name='frame'
    w/size Enter size T=int32 frame_name='frame' is_constant=true
    w/a Enter a T=resource frame_name='frame' is_constant=true
    w/b Enter b T=resource frame_name='frame' is_constant=true
    w/filled Enter fill T=float32 frame_name='frame' is_constant=true
    w/Merge Merge w/i w/next_i T=int32 N=2
    w/Merge_1 Merge w/flow w/next_flow T=float32 N=2
    w/Less Less w/Merge w/size T=int32
    w/LoopCond LoopCond w/Less
    w/Switch Switch w/Merge w/LoopCond T=int32
    w/Switch_1 Switch w/Merge_1 w/LoopCond T=float32
    w/one Const ^w/Switch value=int32:1
    w/add AddV2 w/Switch:1 w/one T=int32
    w/read TensorArrayReadV3 w/a w/Switch:1 w/filled dtype=float32
    w/mul Mul w/read w/read T=float32
    w/write TensorArrayWriteV3 w/b w/Switch:1 w/mul w/Switch_1:1 T=float32
    w/next_i NextIteration w/add T=int32
    w/next_flow NextIteration w/write T=float32
    w/Exit Exit w/Switch_1 T=float32
    y TensorArrayGatherV3 b all w/Exit dtype=float32
"""


@pytest.fixture(params=["loop", "copies"])
def imported(request, graph):
    """``imported(text, *names)``: the tensors of one import, or of the second of two."""

    def run(text, *names):
        proto = graph_def(text)
        for _ in range(1 if request.param == "loop" else 2):
            elements = hf.import_graph_def(proto, return_elements=["x:0", *names])
        return elements

    return run


def test_a_conditional(session, imported):
    x, p, y = imported(CONDITIONAL, "p:0", "y:0")
    assert session.run(y, {x: 3.0, p: True}) == 6
    assert session.run(y, {x: 3.0, p: False}) == 4
    grad = hf.gradients(y, x)[0]
    assert session.run(grad, {x: 3.0, p: True}) == 2
    assert session.run(grad, {x: 3.0, p: False}) == 1


def test_a_loop_and_its_gradient(session, imported):
    x, y, g = imported(LOOP, "y:0", "g:0")
    again = hf.gradients(y, x)[0]  # by the loop that the operations form
    for value in (2.0, -0.5):
        np.testing.assert_allclose(session.run([y, g, again], {x: value}),
                                   [value**4, 4 * value**3, 4 * value**3])
    with pytest.raises(TypeError, match="computes the gradient of another loop"):
        hf.gradients(g, x)


def test_arrays(session, imported):
    x, y = imported(ARRAYS, "y:0")
    assert session.run(y, {x: [1.0, 2.0, 3.0]}).tolist() == [1, 4, 9]


def test_gradients_of_imported_loops_and_conditionals(session, graph):
    """They are those of the graph that was exported."""
    x = hf.placeholder(hf.float32, [2], name="x")
    w = hf.constant([0.5, 1.5], name="w")

    def inner(j, b, x):
        return j + 1, hf.cond(hf.equal(j, 1), lambda: hf.sin(b) * x, lambda: b * w), x

    def outer(i, a):
        b = hf.while_loop(lambda j, *_: j < 3, inner, [0, a, x])[1]
        return i + 1, hf.cond(hf.reduce_sum(b) > 0.5, lambda: b * 0.5, lambda: b + a)

    p = hf.placeholder(hf.bool, [], name="p")
    y = hf.cond(p, lambda: hf.while_loop(lambda i, _: i < 2, outer, [0, x])[1], lambda: x * w)
    y = hf.identity(y, name="y")
    grads = hf.gradients(y, [x, w])
    feeds = [{"x:0": [0.3, 0.9], "p:0": v} for v in (True, False)]
    wanted = [session.run(grads, f) for f in feeds]
    with hf.Graph().as_default() as other, hf.Session() as session2:
        hf.import_graph_def(graph.as_graph_def(), name="")
        xs = [other.get_tensor_by_name(n) for n in ("x:0", "w:0")]
        found = hf.gradients(other.get_tensor_by_name("y:0"), xs)
        for f, want in zip(feeds, wanted):
            for got, w in zip(session2.run(found, f), want):
                np.testing.assert_allclose(got, w, rtol=1e-6)
        inside = next(op for op in other.get_operations() if op.type == "LoopCond")
        assert not other.is_fetchable(inside)


def test_frames_of_two_imports_are_told_apart(graph):
    proto = graph_def(LOOP)
    for name in ("one", "two", "", ""):
        hf.import_graph_def(proto, name=name)
    frames = {op.get_attr("frame_name") for op in graph.get_operations() if op.type == "Enter"}
    assert len(frames) == 8 and b"one/while/frame" in frames and b"while/frame" in frames


def test_inside_a_loop_and_a_conditional(session, graph):
    proto = graph_def(LOOP)

    def fourth_power(v):
        y = hf.import_graph_def(proto, input_map={"x": v}, return_elements=["y:0"])[0]
        return hf.reshape(y, [])

    p = hf.placeholder(hf.bool, [])
    looped = hf.while_loop(lambda i, a: i < 2, lambda i, a: [i + 1, fourth_power(a)], [0, 2.0])[1]
    assert session.run(looped) == 2.0**16
    chosen = hf.cond(p, lambda: fourth_power(hf.constant(3.0)), lambda: 0.5)
    assert [session.run(chosen, {p: v}) for v in (True, False)] == [81, 0.5]


def test_there_and_back(session, graph):
    """What is built here, exported and imported, computes the same."""
    x = hf.placeholder(hf.float32, [2], name="x")
    w = hf.constant([0.5, 1.5])
    ta = hf.TensorArray(hf.float32, 4)

    def body(i, a, ta):
        a = hf.cond(hf.reduce_sum(a) > 1.0, lambda: a * w, lambda: hf.sin(a) + x)
        return [i + 1, a, ta.write(i, a)]

    _, a, ta = hf.while_loop(lambda i, *_: i < 4, body, [0, x, ta])
    y = hf.identity(ta.stack(), name="y")
    g = hf.identity(hf.gradients([y, a], x)[0], name="g")
    wanted = session.run([y, g], {x: [0.3, 0.9]})
    text = hf.GraphDef.FromString(graph.as_graph_def().SerializeToString())
    with hf.Graph().as_default(), hf.Session() as other:
        x2, y2, g2 = hf.import_graph_def(text, return_elements=["x:0", "y:0", "g:0"])
        for got, want in zip(other.run([y2, g2], {x2: [0.3, 0.9]}), wanted):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("value, taken", [(0, False), (3, True), ([], False), ([0], True),
                                          ([[1, 2]], True)])
def test_a_condition_of_any_rank(value, taken):
    """Only of a scalar the value decides, otherwise whether there are elements."""
    with hf.Graph().as_default() as graph:
        @function.Defun(hf.float32, func_name="Twice")
        def twice(x):
            return x * 2.0

        @function.Defun(hf.float32, func_name="Minus")
        def less(x):
            return x - 1.0

        twice(hf.constant(1.0))
        less(hf.constant(1.0))
        hf.placeholder(hf.int32, name="pred")
        hf.placeholder(hf.float32, [], name="x")
        definition = graph.as_graph_def()
    node = definition.node.add(name="r", op="If", input=["pred", "x"])
    node.attr["Tcond"].type = hf.int32.as_datatype_enum
    for key in ("Tin", "Tout"):
        node.attr[key].list.type.append(hf.float32.as_datatype_enum)
    node.attr["then_branch"].func.name = "Twice"
    node.attr["else_branch"].func.name = "Minus"
    with hf.Graph().as_default(), hf.Session() as session:
        pred, x, result = hf.import_graph_def(definition, return_elements=["pred:0", "x:0", "r:0"])
        assert session.run(result, {pred: value, x: 5.0}) == (10 if taken else 4)


@pytest.fixture
def reference(session):
    """The reference of a variable that is 1, initialized, and a predicate to feed."""
    variable = hf.Variable(1.0, use_resource=False, name="v")
    session.run(hf.global_variables_initializer())
    return variable._ref(), hf.placeholder(hf.bool, [])


def test_switch_and_merge_of_values_read_references(session, reference):
    ref, pred = reference
    with hf.control_dependencies([raw.RefSwitch(data=ref, pred=pred).output_true.op]):
        false, true = raw.RefSwitch(data=ref, pred=pred)
    merged, index = raw.Merge(inputs=[false, raw.Assign(ref=true, value=hf.constant(5.0))])
    taken = raw.Switch(data=ref, pred=pred).output_false
    assert session.run([merged, merged * 2, index, taken], {pred: False}) == [1, 2, 0, 1]
    assert session.run([merged, merged * 2, index], {pred: True}) == [5, 10, 1]


def test_enter_and_exit_of_values_read_references(session, reference):
    ref, _ = reference
    values = raw.Exit(data=raw.Enter(data=ref, frame_name="a"))
    mixed = raw.Exit(data=raw.RefEnter(data=ref, frame_name="b"))
    kept = raw.RefExit(data=raw.RefEnter(data=ref, frame_name="c"))
    assert session.run([values, values + 1, mixed, mixed + 1, kept, kept + 1]) == [1, 2, 1, 2, 1, 2]


def test_loop_variable_of_references_is_read(session, reference):
    ref, _ = reference
    enter = raw.RefEnter(data=ref, frame_name="d")
    merged, _ = raw.Merge(inputs=[enter, enter])
    out, again = raw.Switch(data=merged, pred=raw.LoopCond(input=merged < 9.0))
    counted = raw.AssignAdd(
        ref=raw.RefEnter(data=ref, frame_name="d", is_constant=True), value=again)
    merged.op._update_input(1, raw.RefNextIteration(data=counted))
    assert session.run(raw.Exit(data=out)) == 16
