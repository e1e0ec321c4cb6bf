"""Graphs as GraphDef protobufs: export, import, and the way back."""

from __future__ import annotations

import time

import numpy as np
import pytest
from speed import slowness

import hpcflow.ops  # noqa: F401
from hpcflow import dtypes
from hpcflow.graph.convert import constant
from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import import_graph_def, split_input
from hpcflow.graph.opdef import get_op_def
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.tensor_proto import make_ndarray

FLOAT = "attr { key: 'T' value { type: DT_FLOAT } }"
A = """
node { name: 'a' op: 'Const'
       attr { key: 'dtype' value { type: DT_FLOAT } }
       attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1 } } } }
"""
B = f"node {{ name: 'b' op: 'Identity' input: 'a' {FLOAT} }}"


@pytest.fixture
def graph():
    with Graph().as_default() as g:
        yield g


def parse(text):
    from google.protobuf import text_format
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    return text_format.Parse(text, GraphDef())


def names(graph):
    return [op.name for op in graph.get_operations()]


# ---------------------------------------------------------------- export


def test_export(graph):
    with graph.device("/job:ps"):
        x = constant([1.0, 2.0], name="x")
    with graph.control_dependencies([x]), graph.name_scope("s"):
        first = raw_ops.NoOp(name="first")
    values, index = raw_ops.Merge(inputs=[x, x], name="m")
    with graph.control_dependencies([first]):
        raw_ops.Identity(input=index, name="y")
    proto = graph.as_graph_def()
    assert [n.name for n in proto.node] == ["x", "s/first", "m", "y"]
    assert [list(n.input) for n in proto.node] == [[], ["^x"], ["x", "x"], ["m:1", "^s/first"]]
    assert proto.node[0].device == "/job:ps"
    assert proto.node[2].attr["N"].i == 2
    assert proto.node[2].attr["T"].type == dtypes.float32.enum
    assert make_ndarray(proto.node[0].attr["value"].tensor).tolist() == [1, 2]
    assert (proto.versions.producer, proto.versions.min_consumer) == (21, 0)
    assert values.op.node_def == proto.node[2]


def test_export_of_a_part_and_with_shapes(graph):
    raw_ops.Placeholder(dtype=dtypes.float32, shape=[None, 3], name="x")
    version = graph.version
    raw_ops.NoOp(name="n")
    assert [n.name for n in graph.as_graph_def(from_version=version).node] == ["n"]
    node = graph.as_graph_def(add_shapes=True).node[0]
    sizes = [d.size for d in node.attr["_output_shapes"].list.shape[0].dim]
    assert sizes == [-1, 3]
    assert "_output_shapes" not in graph.as_graph_def().node[0].attr


def test_op_definitions_as_protobufs():
    proto = get_op_def("Merge").to_proto()
    assert proto.input_arg[0].number_attr == "N"
    assert [a.name for a in proto.output_arg] == ["output", "value_index"]
    assert proto.attr[1].has_minimum
    assert proto.attr[1].minimum == 1
    variable = get_op_def("VariableV2").to_proto()
    assert variable.is_stateful
    assert variable.output_arg[0].is_ref


def test_round_trip_is_the_identity(graph):
    x = raw_ops.Placeholder(dtype=dtypes.float32, shape=[None, 3], name="x")
    with graph.device("/job:ps/task:0"), graph.container("box"):
        v = raw_ops.VariableV2(shape=[2, 3], dtype=dtypes.float32, name="v")
    with graph.colocate_with(v):
        assigned = raw_ops.Assign(ref=v, value=np.ones((2, 3), np.float32), name="set")
    with graph.control_dependencies([assigned]), graph.name_scope("scope"):
        raw_ops.Pack(values=[x, x], axis=1, name="packed")
    text = constant([b"a", b"\xff"], name="text")
    raw_ops.Identity(input=text)
    proto = graph.as_graph_def(add_shapes=True)
    with Graph().as_default() as copy:
        import_graph_def(proto, name="")
    assert copy.as_graph_def(add_shapes=True) == proto
    assert copy.get_operation_by_name("set").inputs[0].dtype is dtypes.float32_ref
    assert copy.get_tensor_by_name("x:0").shape.as_list() == [None, 3]
    serialized = copy.as_graph_def().SerializeToString(deterministic=True)
    assert serialized == graph.as_graph_def().SerializeToString(deterministic=True)


# ---------------------------------------------------------------- import


def test_import_puts_everything_under_a_scope(graph):
    assert import_graph_def(parse(A + B)) is None
    assert names(graph) == ["import/a", "import/b"]
    import_graph_def(parse(A + B))
    import_graph_def(parse(A + B), name="other")
    assert names(graph)[2:] == ["import_1/a", "import_1/b", "other/a", "other/b"]
    with graph.name_scope("q"):
        import_graph_def(parse(A), name="k")
        import_graph_def(parse(A), name="")
        import_graph_def(parse(A), name="")
    assert names(graph)[6:] == ["q/k/a", "a", "a_1"]
    assert constant(1, name="a").name == "a_2:0"


def test_return_elements(graph):
    op, tensor = import_graph_def(parse(A + B), return_elements=["b", "b:0"])
    assert op is graph.get_operation_by_name("import/b")
    assert tensor is op.outputs[0]
    assert tensor.shape.as_list() == []


def test_input_map(graph):
    x = constant([1.0, 2.0], name="x")
    for key in ("a", "a:0"):
        (y,) = import_graph_def(parse(A + B), input_map={key: x}, return_elements=["b:0"])
        assert y.op.inputs[0] is x
        assert y.shape.as_list() == [2]
    (y,) = import_graph_def(parse(B), input_map={"a:0": x}, return_elements=["b:0"])
    assert y.op.inputs[0] is x
    (y,) = import_graph_def(parse(B), input_map={"a:0": 5.0}, return_elements=["b:0"])
    assert y.op.inputs[0].op.type == "Const"


def test_control_inputs_are_imported_and_mapped(graph):
    late = "node { name: 'n' op: 'NoOp' input: '^b' input: '^b' input: '^a' }"
    (n,) = import_graph_def(parse(late + B + A), return_elements=["n"])
    assert [op.name for op in n.control_inputs] == ["import/b", "import/a"]
    x = constant(1.0)
    (n,) = import_graph_def(parse(late), input_map={"^a": x.op, "^b": x}, return_elements=["n"])
    assert n.control_inputs == [x.op]


def test_surrounding_control_dependencies_apply(graph):
    first = raw_ops.NoOp(name="first")
    with graph.control_dependencies([first]):
        a, b = import_graph_def(parse(A + B), return_elements=["a", "b"])
    assert a.control_inputs == [first]
    assert b.control_inputs == []


def test_order_of_the_file_is_kept_where_inputs_allow(graph):
    import_graph_def(parse(B.replace("'b'", "'z'") + A + B), name="")
    assert names(graph) == ["a", "z", "b"]


LOOP = f"""
{A}
node {{ name: 'enter' op: 'Enter' input: 'a' {FLOAT}
        attr {{ key: 'frame_name' value {{ s: 'loop' }} }} }}
node {{ name: 'merge' op: 'Merge' input: 'enter' input: 'next' {FLOAT}
        attr {{ key: 'N' value {{ i: 2 }} }} }}
node {{ name: 'go' op: 'Const' input: '^merge'
        attr {{ key: 'dtype' value {{ type: DT_BOOL }} }}
        attr {{ key: 'value' value {{ tensor {{ dtype: DT_BOOL tensor_shape {{}} bool_val: false
        }} }} }} }}
node {{ name: 'cond' op: 'LoopCond' input: 'go' }}
node {{ name: 'switch' op: 'Switch' input: 'merge' input: 'cond' {FLOAT} }}
node {{ name: 'exit' op: 'Exit' input: 'switch' {FLOAT} }}
node {{ name: 'body' op: 'Identity' input: 'switch:1' {FLOAT} }}
node {{ name: 'next' op: 'NextIteration' input: 'body' {FLOAT} }}
"""


def test_back_edges_of_loops(graph):
    import_graph_def(parse(LOOP), name="")
    merge = graph.get_operation_by_name("merge")
    after = graph.get_operation_by_name("next")
    assert merge.inputs[1] is after.outputs[0]
    assert after.outputs[0].consumers() == [merge]
    assert graph.get_tensor_by_name("enter:0").consumers() == [merge]
    proto = graph.as_graph_def()
    with Graph().as_default() as copy:
        import_graph_def(proto, name="")
    assert copy.as_graph_def() == proto


def test_defaults_are_filled_in_and_shapes_used(graph):
    text = """
    node { name: 'v' op: 'VariableV2'
           attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'shape' value { shape { dim { size: 2 } } } } }
    node { name: 'p' op: 'Placeholder'
           attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'shape' value { shape { unknown_rank: true } } }
           attr { key: '_output_shapes' value { list { shape { dim { size: -1 }
                                                               dim { size: 4 } } } } } }
    """
    v, p = import_graph_def(parse(text), return_elements=["v", "p:0"])
    assert v.get_attr("shared_name") == b""
    assert p.shape.as_list() == [None, 4]
    assert "_output_shapes" not in p.op._attrs


def test_shapes_that_other_versions_declare(graph):
    with Graph().as_default() as theirs:
        x, v = constant(np.ones([2, 3, 3, 4], np.float32)), constant(np.ones(4, np.float32))
        raw_ops.FusedBatchNormGradV3(
            y_backprop=x, x=x, scale=v, reserve_space_1=v, reserve_space_2=v, reserve_space_3=v,
            is_training=False, name="g")
        definition = theirs.as_graph_def(add_shapes=True)
    for shape in definition.node[-1].attr["_output_shapes"].list.shape[3:]:
        shape.dim[0].size = 4  # by 1.15; there is nothing in them
    (g,) = import_graph_def(definition, return_elements=["g"])
    assert [t.shape.as_list() for t in g.outputs[1:3]] == [[4], [4]]


def test_attributes_of_later_versions(graph):
    import_graph_def(parse(A + B.replace(FLOAT, FLOAT + """
        attr { key: 'empty' value { s: '' } }
        attr { key: 'off' value { b: false } }
        attr { key: 'incompatible_shape_error' value { b: true } }
        attr { key: 'dilations' value { list { i: 1 i: 1 } } }
        attr { key: '_private' value { s: 'kept' } }
    """)))
    op = graph.get_operation_by_name("import/b")
    assert sorted(op._attrs) == ["T", "_private"]
    with pytest.raises(ValueError, match="Identity has no attribute 'mode', which the GraphDef"):
        import_graph_def(parse(A + B.replace(FLOAT, FLOAT + "attr { key: 'mode' value { i: 3 } }")))


def test_devices_and_colocation(graph):
    text = A + """
    node { name: 's' op: 'NoOp' device: '/task:9'
           attr { key: '_class' value { list { s: 'loc:@v' } } } }
    node { name: 'v' op: 'VariableV2' device: '/job:ps/cpu:0'
           attr { key: 'dtype' value { type: DT_FLOAT } }
           attr { key: 'shape' value { shape {} } } }
    """
    calls = []

    def place(op):
        calls.append(op.name)
        return op.device or "/job:worker"

    with graph.device("/task:1"), graph.device(place):
        import_graph_def(parse(text), name="z")
    ops = {op.name: op for op in graph.get_operations()}
    assert ops["z/a"].device == "/job:worker/task:1"
    assert ops["z/v"].device == "/job:ps/task:1/device:CPU:0"
    assert ops["z/s"].device == "/job:ps/task:1/device:CPU:0"
    assert ops["z/s"].colocation_groups() == [b"loc:@z/v"]
    assert sorted(calls) == ["z/a", "z/v"]
    with graph.device(None):
        import_graph_def(parse(text), name="")
        import_graph_def(parse(text), name="")
    assert graph.get_operation_by_name("s_1").colocation_groups() == [b"loc:@v_1"]


CYCLE = f"""
node {{ name: 'p' op: 'Identity' input: 'q' {FLOAT} }}
node {{ name: 'q' op: 'Identity' input: 'p' {FLOAT} }}
"""
LOST = "node { name: 's' op: 'NoOp' attr { key: '_class' value { list { s: 'loc:@out' } } } }"
WRONG_TYPE = "was passed float from import/a:0 incompatible with expected "


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (A + B, {"input_map": {"zz:0": 1.0}}, r"Attempted to map inputs .* \[zz:0\]"),
        (A + B, {"return_elements": ["zz"]}, "return node 'zz' not found in graph def"),
        (A + B, {"return_elements": ["b:1"]},
         r"Invalid return output 1 of node 'b', which has 1 output\(s\)"),
        (A + B, {"return_elements": ["b:x"]}, "Cannot convert 'b:x' to a tensor name"),
        (A + B, {"return_elements": ["zz:b:0"]}, "Cannot convert 'zz:b:0' to a tensor name"),
        (B, {}, "Node 'b': Unknown input node 'a'"),
        (A + B.replace("'a'", "'a:3'"), {}, "invalid output 3 of source node a which has 1"),
        (A + B.replace("FLOAT", "INT32"), {},
         f"Input 0 of node import/b {WRONG_TYPE}int32"),
        (A + B.replace("input: 'a'", "input: 'a' input: 'a'"), {},
         "expected inputs 'float' do not match 2 inputs specified"),
        (A + B.replace("input: 'a'", ""), {},
         "expected inputs 'float' do not match 0 inputs specified"),
        (A + B.replace(FLOAT, ""), {}, r"Node 'b' \(Identity\) is missing a value for .* 'T'"),
        (A + A, {}, "Node 'a' is not unique"),
        (A + "node { name: 'x' op: 'Zip' } node { name: 'y' op: 'Zap' }", {},
         "No op named Zap, Zip .* 2 op type"),
        (CYCLE, {}, "cycle through p, q"),
        (LOST, {}, "Node 's' expects to be colocated with unknown node 'out'"),
        ("node { name: 's' op: 'NoOp' device: '/jib:x' }", {}, "Node 's': .*'/jib:x'"),
        ("node { name: 'v' op: 'Assign' input: 'a' input: 'a' " + FLOAT + " }" + A, {},
         f"{WRONG_TYPE}float_ref"),
    ],
)  # fmt: skip
def test_import_errors_leave_the_graph_as_it_was(graph, text, options, message):
    x = constant(1.0, name="x")
    with pytest.raises(ValueError, match=message):
        import_graph_def(parse(text), **options)
    assert names(graph) == ["x"]
    assert x.consumers() == []


def test_import_needs_the_right_arguments(graph):
    for call in (
        lambda: import_graph_def("text"),
        lambda: import_graph_def(parse(A), input_map=[("a", 1.0)]),
        lambda: import_graph_def(parse(A), input_map={1: 1.0}),
        lambda: import_graph_def(parse(A), return_elements=3),
        lambda: import_graph_def(parse(A), return_elements=[3]),
    ):
        with pytest.raises(TypeError, match="must be"):
            call()


def test_names_of_inputs():
    assert split_input("a") == ("a", 0)
    assert split_input("a:2") == ("a", 2)
    assert split_input("^a") == ("a", -1)


def test_large_graphs_are_quick(graph):
    x = constant(np.zeros(3, np.float32))
    with graph.device("/cpu:0"):
        for _ in range(2000):
            x = raw_ops.Identity(input=x)
    start = time.process_time()
    proto = graph.as_graph_def()
    with Graph().as_default():
        import_graph_def(proto)
    assert time.process_time() - start < 2.0 * slowness()


def test_versions_of_a_graph_are_those_of_its_parts(graph):
    from google.protobuf import text_format
    from tensorboard.compat.proto import graph_pb2

    def proto(versions):
        return text_format.Parse(f"{A} versions {{ {versions} }}", graph_pb2.GraphDef())

    import_graph_def(proto("producer: 17 min_consumer: 3"))
    assert (graph.graph_def_versions.producer, graph.graph_def_versions.min_consumer) == (17, 3)
    import_graph_def(proto("producer: 1087 min_consumer: 12"))
    assert (graph.graph_def_versions.producer, graph.graph_def_versions.min_consumer) == (17, 12)
    with pytest.raises(ValueError, match="min consumer version 99 above current version"):
        import_graph_def(proto("producer: 200 min_consumer: 99"))
    with pytest.raises(ValueError, match="producer version -1 below min producer 0"):
        import_graph_def(proto("producer: -1"))
    with pytest.raises(ValueError, match="disallows consumer version"):
        import_graph_def(proto("producer: 30 bad_consumers: 21"))
    assert graph.version == 2


def test_a_scope_without_operations_takes_no_name_from_an_import(graph):
    from google.protobuf import text_format
    from tensorboard.compat.proto import graph_pb2

    proto = text_format.Parse(A, graph_pb2.GraphDef())
    with graph.name_scope("a"):
        pass
    assert import_graph_def(proto, return_elements=["a"], name="")[0].name == "a"
    with graph.name_scope("b"), graph.name_scope("a"):
        constant(1.0)
    proto.node[0].name = "b"
    assert import_graph_def(proto, return_elements=["b"], name="")[0].name == "b_1"
