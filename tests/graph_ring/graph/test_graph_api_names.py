"""Names, name scopes, lookup of elements, collections and finalization of graphs."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow.ops  # noqa: F401
from hpcflow import dtypes
from hpcflow.graph import graph as graph_module
from hpcflow.graph.convert import constant
from hpcflow.graph.graph import Graph, get_default_graph, name_scope
from hpcflow.graph.operation import Operation
from hpcflow.graph.raw import raw_ops


@pytest.fixture
def graph():
    with Graph().as_default() as g:
        yield g


def no_op(name=None):
    return raw_ops.NoOp(name=name)


def test_unique_names_ignore_case_and_fill_gaps(graph):
    assert [no_op("a").name for _ in range(3)] == ["a", "a_1", "a_2"]
    assert no_op("A").name == "A_3"
    assert no_op("b_1").name == "b_1"
    assert [no_op("b").name for _ in range(2)] == ["b", "b_2"]
    assert graph.unique_name("c", mark_as_used=False) == "c"
    assert graph.unique_name("c") == "c"
    assert graph.unique_name("c") == "c_1"


def test_default_name_is_the_type(graph):
    assert no_op().name == "NoOp"
    assert constant(1).op.name == "Const"


@pytest.mark.parametrize("name", ["", "_x", "-x", "a b", "a\n", "é", "/a"])
def test_bad_op_names(graph, name):
    if not name:
        assert no_op(name).name == "NoOp"
        return
    with pytest.raises(ValueError, match="is not a valid"):
        no_op(name)


def test_name_scopes_nest_and_become_unique(graph):
    with graph.name_scope("a") as a:
        assert a == "a/"
        assert no_op("x").name == "a/x"
        with graph.name_scope("b") as b:
            assert (b, no_op("x").name) == ("a/b/", "a/b/x")
        with graph.name_scope("b") as again:
            assert again == "a/b_1/"
        with graph.name_scope(b):
            assert no_op("x").name == "a/b/x_1"
        for top in (None, ""):
            with graph.name_scope(top) as scope:
                assert scope == ""
                assert no_op("top").name.startswith("top")
        with graph.name_scope("_inner") as inner:
            assert inner == "a/_inner/"
    with graph.name_scope("a") as second:
        assert second == "a_1/"


def test_a_name_that_ends_in_a_slash_is_absolute(graph):
    with graph.name_scope("a"):
        assert no_op("z/y/").name == "z/y"


def test_a_scope_and_an_op_share_one_set_of_names(graph):
    assert no_op("a").name == "a"
    with graph.name_scope("a") as scope:
        assert scope == "a_1/"


@pytest.mark.parametrize("name", ["_a", "a b", "-a"])
def test_bad_scope_names(graph, name):
    with pytest.raises(ValueError, match="is not a valid scope name"):
        with graph.name_scope(name):
            pass


def test_a_scope_is_left_when_its_body_raises(graph):
    with pytest.raises(RuntimeError):
        with graph.name_scope("a"):
            raise RuntimeError
    assert no_op("x").name == "x"


def test_module_level_name_scope_checks_its_values(graph):
    x = constant(1.0)
    with name_scope(None, "Default", [x]) as scope:
        assert scope == "Default/"
    with name_scope("given", "Default", [x]) as scope:
        assert scope == "given/"
    with Graph().as_default(), name_scope("inside", values=[x]):
        assert get_default_graph() is graph
    with pytest.raises(ValueError, match="At least one of name"):
        with name_scope(None, None, [x]):
            pass
    with Graph().as_default():
        other = constant(1.0)
    with pytest.raises(ValueError, match="must be from the same graph"):
        with name_scope("both", values=[x, other]):
            pass


def test_constants_made_for_inputs_are_named_inside_the_op(graph):
    a = constant(np.zeros(2, np.float32), name="a")
    ones = raw_ops.ZerosLike(x=[1.0, 2.0], name="zeros")
    assert ones.op.inputs[0].name == "zeros/x:0"
    assert ones.name == "zeros:0"
    assert raw_ops.ZerosLike(x=a).op.inputs[0] is a


def test_lookup(graph):
    x = constant(1.0, name="x")
    op = no_op("n")
    assert graph.get_tensor_by_name("x:0") is x
    assert graph.get_operation_by_name("n") is op
    assert graph.as_graph_element("x") is x.op
    assert graph.as_graph_element(b"x:0") is x
    assert graph.as_graph_element(x) is x
    assert graph.as_graph_element(op) is op

    class Holder:
        def _as_graph_element(self):
            return x

    assert graph.as_graph_element(Holder()) is x


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.get_tensor_by_name("x"), ValueError, "refers to an Operation, not a Tensor"),
        (lambda g: g.get_tensor_by_name("zz"), ValueError, "looks like an .invalid. Operation"),
        (lambda g: g.get_tensor_by_name("zz:0"), KeyError, "does not exist in the graph"),
        (lambda g: g.get_tensor_by_name("x:1"), KeyError, "only has 1 outputs"),
        (lambda g: g.get_tensor_by_name("x:y"), ValueError, "not a valid one"),
        (lambda g: g.get_operation_by_name("x:0"), ValueError, "appears to refer to a Tensor"),
        (lambda g: g.get_operation_by_name("xx"), KeyError, "Similar names: x"),
        (lambda g: g.get_operation_by_name(3), TypeError, "Operation names are strings"),
        (lambda g: g.get_tensor_by_name(None), TypeError, "Tensor names are strings"),
        (lambda g: g.as_graph_element(3), TypeError, "Can not convert a int into a Tensor or Op"),
        (lambda g: g.as_graph_element("x", False, False), ValueError, "can't both be False"),
    ],
)
def test_lookup_errors(graph, call, error, message):
    constant(1.0, name="x")
    with pytest.raises(error, match=message):
        call(graph)


def test_elements_of_other_graphs_are_refused(graph):
    with Graph().as_default():
        x = constant(1.0)
    for element in (x, x.op):
        with pytest.raises(ValueError, match="is not an element of this graph"):
            graph.as_graph_element(element)
    with pytest.raises(ValueError, match="same graph"):
        graph.create_op("Identity", [x])


def test_collections(graph):
    x = constant(1.0, name="scope/x")
    graph.add_to_collection("c", x)
    graph.add_to_collection("c", 3)
    graph.add_to_collections(["c", "d", "d"], "item")
    graph.add_to_collections("e", "item")
    assert graph.get_collection("c") == [x, 3, "item"]
    assert graph.get_collection("c", scope="scope") == [x]
    assert graph.get_collection("c", scope="other") == []
    assert graph.get_collection("d") == ["item"]
    assert graph.get_all_collection_keys() == ["c", "d", "e"]
    assert graph.get_collection("absent") == []
    graph.get_collection("c").append(4)
    assert len(graph.get_collection("c")) == 3
    graph.get_collection_ref("f").append(5)
    assert graph.get_collection("f") == [5]
    graph.clear_collection("c")
    assert graph.get_collection("c") == []


def test_finalize(graph):
    constant(1.0)
    graph.finalize()
    assert graph.finalized
    for change in (
        no_op,
        lambda: graph.add_to_collection("c", 1),
        lambda: graph.clear_collection("c"),
    ):
        with pytest.raises(RuntimeError, match="finalized and cannot be modified"):
            change()
    assert graph.get_operations()[0].name == "Const"


def test_version_grows_and_operations_keep_their_order(graph):
    before = graph.version
    ops = [no_op() for _ in range(3)]
    assert graph.version > before
    assert graph.get_operations() == ops
    graph.get_operations().clear()
    assert graph.get_operations() == ops


def test_default_graphs_nest():
    outer = get_default_graph()
    with Graph().as_default() as first:
        assert get_default_graph() is first
        with Graph().as_default() as second:
            assert get_default_graph() is second
        assert get_default_graph() is first
        with pytest.raises(AssertionError):
            graph_module.reset_default_graph()
    assert get_default_graph() is outer


def test_feeding_and_fetching_can_be_refused(graph):
    x = constant(1.0)
    y = constant(2.0)
    graph.prevent_feeding(x)
    graph.prevent_fetching(x.op)
    assert not graph.is_feedable(x)
    assert graph.is_feedable(y)
    assert not graph.is_fetchable(x)
    assert not graph.is_fetchable(x.op)
    assert graph.is_fetchable(y)


def test_seed_is_kept(graph):
    assert graph.seed is None
    graph_module.set_random_seed(7)
    assert graph.seed == 7


def test_operation_and_tensor_facts(graph):
    x = constant([[1.0, 2.0]], name="x")
    y = raw_ops.Identity(input=x, name="y")
    z = raw_ops.Identity(input=x)
    op = y.op
    assert (op.type, op.name, op.graph, op.device) == ("Identity", "y", graph, "")
    assert op.inputs[0] is x
    assert op.values() == (y,)
    assert op.outputs == [y]
    assert op.control_inputs == []
    assert x.consumers() == [op, z.op]
    assert (y.name, y.value_index, y.dtype) == ("y:0", 0, dtypes.float32)
    assert op.get_attr("T") is dtypes.float32
    assert x.op.get_attr("value").tensor_shape.dim[1].size == 2
    with pytest.raises(ValueError, match="has no attr named 'absent'"):
        op.get_attr("absent")
    assert repr(y) == "<tf.Tensor 'y:0' shape=(1, 2) dtype=float32>"
    assert str(y) == 'Tensor("y:0", shape=(1, 2), dtype=float32)'
    assert op.colocation_groups() == [b"loc:@y"]
    assert op.node_def.input == ["x"]


def test_creation_site_is_the_users_line(graph):
    op = no_op()
    filename, line, function = op.creation_site
    assert filename == __file__
    assert function == "no_op"
    outermost, innermost = op.traceback[0], op.traceback[-1]
    assert len(outermost) == len(innermost) == 4
    assert (__file__, line, "no_op", "return raw_ops.NoOp(name=name)") in op.traceback


def test_set_shape_only_adds_knowledge(graph):
    x = raw_ops.Placeholder(dtype=dtypes.float32, shape=[None, 3])
    x.set_shape([2, None])
    assert x.shape.as_list() == [2, 3]
    x.set_shape(None)
    with pytest.raises(ValueError, match="not compatible"):
        x.set_shape([3, 3])
    assert x.get_shape().as_list() == [2, 3]


def test_tensors_are_no_python_values(graph):
    x = constant([1.0, 2.0])
    with pytest.raises(TypeError, match="Python `bool` is not allowed"):
        bool(x)
    with pytest.raises(TypeError, match="not iterable"):
        iter(x)
    with pytest.raises(TypeError, match="not well defined"):
        len(x)
    assert {x: 1}[x] == 1


def test_running_without_a_session_says_so(graph):
    with pytest.raises(ValueError, match="No default session is registered"):
        constant(1.0).eval()
    with pytest.raises(ValueError, match="No default session is registered"):
        no_op().run()


def test_an_operation_of_a_node_def():
    with Graph().as_default() as graph:
        x = constant([1.0, 2.0])
        made = raw_ops.Identity(x, name="same")
        op = Operation(made.op.node_def, graph, inputs=[x])
        assert (op.name, op.type, op.outputs[0].dtype) == ("same", "Identity", dtypes.float32)
        assert graph.get_operations()[-1] is made.op
        with pytest.raises(TypeError, match="NodeDef"):
            Operation("Identity", graph)
