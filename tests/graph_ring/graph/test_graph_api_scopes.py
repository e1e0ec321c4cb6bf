"""Device, colocation, control, attribute, container and gradient scopes of graphs."""

from __future__ import annotations

import sys
import threading

import pytest

import hpcflow.ops  # noqa: F401
from hpcflow import dtypes
from hpcflow.device_spec import DeviceSpec
from hpcflow.graph.convert import constant
from hpcflow.graph.graph import Graph
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.raw import raw_ops


@pytest.fixture
def graph():
    with Graph().as_default() as g:
        yield g


def no_op(name=None):
    return raw_ops.NoOp(name=name)


def identity(x, name=None):
    return raw_ops.Identity(input=x, name=name)


# ---------------------------------------------------------------- devices


def test_inner_devices_complete_outer_ones(graph):
    with graph.device("/job:worker"):
        assert no_op().device == "/job:worker"
        with graph.device("/task:1/cpu:0"):
            assert no_op().device == "/job:worker/task:1/device:CPU:0"
            with graph.device("/job:ps/gpu:2"):
                assert no_op().device == "/job:ps/task:1/device:GPU:2"
        with graph.device(DeviceSpec(task=3)):
            assert no_op().device == "/job:worker/task:3"
    assert no_op().device == ""


def test_none_drops_outer_devices_only(graph):
    with graph.device("/job:worker"):
        with graph.device(None):
            assert no_op().device == ""
            with graph.device("/cpu:0"):
                assert no_op().device == "/device:CPU:0"
        assert no_op().device == "/job:worker"


def test_device_functions_see_the_device_of_inner_scopes(graph):
    seen = []

    def function(op):
        seen.append((op.type, op.device))
        return "/job:ps" if op.type == "NoOp" else op.device

    with graph.device("/task:7"):
        with graph.device(function):
            assert no_op().device == "/job:ps/task:7"
            with graph.device("/cpu:1"):
                assert constant(1).device == "/task:7/device:CPU:1"
    assert seen == [("NoOp", ""), ("Const", "/device:CPU:1")]


def test_a_device_function_may_return_a_spec_or_none(graph):
    with graph.device(lambda op: DeviceSpec(job="ps", task=1)):
        assert no_op().device == "/job:ps/task:1"
    with graph.device(lambda op: None):
        assert no_op().device == ""


def test_a_bad_device_name_is_refused_at_once(graph):
    with pytest.raises(ValueError, match="/jib:worker"):
        with graph.device("/jib:worker"):
            pass


# ---------------------------------------------------------------- colocation


def test_colocation_takes_the_group_and_the_device(graph):
    with graph.device("/job:ps/task:1"):
        v = raw_ops.VariableV2(shape=[], dtype=dtypes.float32, name="v")
    with graph.device("/gpu:0"), graph.colocate_with(v):
        inside = no_op()
        with graph.device("/gpu:1"):
            assert no_op().device == "/job:ps/task:1"
    assert inside.colocation_groups() == [b"loc:@v"]
    assert inside.device == "/job:ps/task:1"
    with graph.colocate_with(inside):
        assert no_op().colocation_groups() == [b"loc:@v"]
    assert no_op().colocation_groups() == [b"loc:@NoOp_3"]


def test_nested_colocation_collects_groups(graph):
    a, b = no_op("a"), no_op("b")
    with graph.colocate_with(b), graph.colocate_with(a):
        assert no_op().colocation_groups() == [b"loc:@a", b"loc:@b"]
        with graph.colocate_with(b, ignore_existing=True):
            assert no_op().colocation_groups() == [b"loc:@b"]
        with graph.colocate_with(None, ignore_existing=True):
            assert no_op("free").colocation_groups() == [b"loc:@free"]
    with pytest.raises(ValueError, match="reset colocation"):
        with graph.colocate_with(None):
            pass


# ---------------------------------------------------------------- control dependencies


def test_control_inputs(graph):
    a, b = no_op("a"), constant(1.0, name="b")
    with graph.control_dependencies([a, b, "a", b.op]):
        op = no_op()
    assert op.control_inputs == [a, b.op]


def test_nested_scopes_add_up_without_repetition(graph):
    a, b, c = no_op("a"), no_op("b"), no_op("c")
    with graph.control_dependencies([a, b]):
        with graph.control_dependencies([b, c]):
            assert no_op().control_inputs == [a, b, c]
        assert no_op().control_inputs == [a, b]
    assert no_op().control_inputs == []


def test_a_data_input_replaces_the_control_input(graph):
    x, a = constant(1.0), no_op("a")
    with graph.control_dependencies([x, a]):
        assert identity(x).op.control_inputs == [a]


def test_ops_that_read_from_inside_the_scope_need_no_edge(graph):
    a, b = no_op("a"), no_op("b")
    with graph.control_dependencies([a]):
        x = constant(1.0)
        assert identity(x).op.control_inputs == []
        with graph.control_dependencies([b]):
            y = identity(x)
            assert y.op.control_inputs == [b]
            assert identity(y).op.control_inputs == []


def test_none_clears_control_dependencies(graph):
    a, b = no_op("a"), no_op("b")
    with graph.control_dependencies([a]):
        with graph.control_dependencies(None):
            assert no_op().control_inputs == []
            with graph.control_dependencies([b]):
                assert no_op().control_inputs == [b]
        assert no_op().control_inputs == [a]


def test_none_leaves_the_control_flow_context_and_comes_back(graph):
    class Context:
        def __init__(self):
            self.ops = []

        def AddOp(self, op):
            self.ops.append(op)

    context = graph._control_flow_context = Context()
    with graph.control_dependencies(None):
        no_op()
    assert context.ops == []
    assert no_op() in context.ops


def test_slices_and_bad_control_inputs(graph):
    values, indices = constant([1.0]), constant([0])
    with graph.control_dependencies([IndexedSlices(values, indices)]):
        assert no_op().control_inputs == [values.op]
    with pytest.raises(TypeError, match="Can not convert a int"):
        with graph.control_dependencies([3]):
            pass
    with pytest.raises(KeyError, match="not in the graph"):
        with graph.control_dependencies(["absent"]):
            pass


# ---------------------------------------------------------------- attributes


def test_gradient_override_map(graph):
    with graph.gradient_override_map({"Identity": "Custom"}):
        with graph.gradient_override_map({"NoOp": "Other"}):
            x = identity(constant(1.0))
            assert no_op().get_attr("_gradient_op_type") == b"Other"
    assert x.op.get_attr("_gradient_op_type") == b"Custom"
    assert "_gradient_op_type" not in identity(x).op._attrs
    for bad in ({"Identity": 1}, {1: "x"}, [("Identity", "Custom")]):
        with pytest.raises(TypeError, match="mapping strings to strings"):
            with graph.gradient_override_map(bad):
                pass


def test_attribute_scopes_do_not_overwrite(graph):
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue

    with graph._attr_scope({"_mark": AttrValue(i=5), "T": AttrValue(i=1)}):
        op = identity(constant(1.0)).op
        assert op.get_attr("_mark") == 5
        assert op.get_attr("T") is dtypes.float32
        with graph._attr_scope({"_mark": None}):
            assert "_mark" not in no_op()._attrs
        assert no_op().get_attr("_mark") == 5


def test_containers_reach_stateful_ops(graph):
    with graph.container("outer"):
        v = raw_ops.VariableV2(shape=[], dtype=dtypes.float32)
        own = raw_ops.VariableV2(shape=[], dtype=dtypes.float32, container="own")
        with graph.container("inner"):
            w = raw_ops.VariableV2(shape=[], dtype=dtypes.float32)
        assert "container" not in no_op()._attrs
    u = raw_ops.VariableV2(shape=[], dtype=dtypes.float32)
    assert [t.op.get_attr("container") for t in (v, own, w, u)] == [b"outer", b"own", b"inner", b""]


# ---------------------------------------------------------------- building


def test_an_op_that_does_not_fit_leaves_nothing_behind(graph):
    x = raw_ops.Placeholder(dtype=dtypes.float32, shape=[2])
    v = raw_ops.VariableV2(shape=[3], dtype=dtypes.float32)
    before = graph.get_operations()
    with pytest.raises(ValueError, match=r"\[3\].*\[2\]|\[2\].*\[3\]"):
        raw_ops.Assign(ref=v, value=x)
    assert graph.get_operations() == before
    assert x.consumers() == []
    assert v.consumers() == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: raw_ops.Identity(), TypeError, "No argument for input input"),
        (lambda: raw_ops.NoOp(x=1), TypeError, "unexpected keyword arguments: x"),
        (lambda: raw_ops.Placeholder(dtype="nothing"), TypeError, "Expected DataType for argument"),
        (lambda: raw_ops.VariableV2(dtype=dtypes.int32), TypeError, "No argument for attr shape"),
        (lambda: raw_ops.NoSuchOp(), AttributeError, "not registered"),
        (lambda: raw_ops.Assign(ref=constant(1.0), value=1.0), TypeError, "mutable tensor"),
        (lambda: raw_ops.Identity(1, 2), TypeError, "at most 1"),
        (lambda: raw_ops.Pack(values=[constant(1), "s"]), TypeError,
         r"have types \[int32, string\] that don't all match\."),
        (lambda: raw_ops.LogicalNot(x="s"), TypeError,
         "Expected bool passed to parameter 'x' of op 'LogicalNot', got 's' of type 'str' instead"),
        (lambda: raw_ops.LogicalNot(x=constant(1)), TypeError, r"match expected type of bool\."),
    ],
)
def test_wrong_arguments(graph, call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert not [o for o in graph.get_operations() if o.type != "Const"]


def test_create_op(graph):
    x = constant(1.0)
    op = graph.create_op("Identity", [x], [dtypes.float32], name="made")
    assert (op.name, op.outputs[0].shape.as_list()) == ("made", [])
    with pytest.raises(TypeError, match="is not a tensor"):
        graph.create_op("Identity", [1.0])
    with pytest.raises(ValueError, match="did you mean Identity"):
        graph.create_op("Identiti", [x])
    with pytest.raises(TypeError, match="do not match the expected"):
        graph.create_op("Identity", [x, x], attrs={"T": dtypes.float32})


def test_scopes_of_threads(graph):
    seen = {}

    def build():
        seen["inside"] = no_op("inside").device
        with graph.device("/device:CPU:3"):
            began.set()
            go_on.wait()
            seen["own"] = no_op("own").device

    began, go_on = threading.Event(), threading.Event()
    with graph.device("/device:CPU:1"):
        graph.switch_to_thread_local()
        graph.switch_to_thread_local()
        with graph.device("/device:CPU:2"), graph.control_dependencies([no_op("before")]):
            thread = threading.Thread(target=in_graph(graph, build))
            thread.start()
            began.wait()
            here = no_op("here")
            go_on.set()
            thread.join()
    assert seen == {"inside": "/device:CPU:1", "own": "/device:CPU:3"}
    assert here.device == "/device:CPU:2" and here.control_inputs
    assert not graph.get_operation_by_name("own").control_inputs
    assert no_op("outside").device == ""


def test_scopes_that_are_open_elsewhere(graph):
    """Without the switch nothing of another thread is inherited."""
    made = []
    with graph.name_scope("outer"), graph.device("/device:CPU:1"), graph.container("box"):
        with graph.control_dependencies([no_op("before")]):
            thread = threading.Thread(target=in_graph(graph, lambda: made.append(no_op("alone"))))
            thread.start()
            thread.join()
            here = no_op("here")
    assert (made[0].name, made[0].device, made[0].control_inputs) == ("alone", "", [])
    assert here.name == "outer/here" and here.control_inputs


def test_names_of_threads_are_unique(graph):
    def build():
        for _ in range(200):
            with graph.name_scope("scope"):
                no_op("op")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=in_graph(graph, build)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    ops = graph.get_operations()
    assert len(ops) == len({op.name for op in ops}) == 800
    assert [op._id for op in ops] == list(range(800))


def test_a_device_scope_ends_after_those_inside(graph):
    outer = graph.device("/cpu:0")
    outer.__enter__()
    with graph.device("/cpu:1"), pytest.raises(RuntimeError, match="another one is still open"):
        outer.__exit__(None, None, None)


def in_graph(graph, build):
    def run():
        with graph.as_default():
            build()
    return run
