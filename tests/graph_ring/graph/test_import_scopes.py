"""What an import does with devices, scopes, names and defaults."""

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import graph_pb2, op_def_pb2

import hpcflow as hf

PAIR = """
node { name: "A" op: "NoOp" device: "%s" attr { key: "_class" value { list { s: "loc:@A" } } } }
node { name: "B" op: "NoOp" device: "%s" attr { key: "_class" value { list { s: "loc:@A" } } } }
"""
READ = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }'


@pytest.fixture
def graph():
    with hf.Graph().as_default() as g:
        yield g


def parsed(text):
    return text_format.Parse(text, graph_pb2.GraphDef())


def imported(text, names, **options):
    return hf.import_graph_def(parsed(text), return_elements=names, **options)


@pytest.mark.parametrize("a, b, expected", [("/device:CPU:0", "", "/device:CPU:0"),
                                            ("", "/device:CPU:0", "")])
def test_devices_of_a_group_are_those_of_its_first(graph, a, b, expected):
    ops = imported(PAIR % (a, b), ["A", "B"], name="")
    assert [op.device for op in ops] == [expected] * 2


def test_a_device_scope_holds_for_the_first_of_a_group(graph):
    with hf.device(lambda op: f"/device:CPU:{int(op.name.endswith('B'))}"):
        ops = imported(PAIR % ("", ""), ["A", "B"], name="")
    assert [op.device for op in ops] == ["/device:CPU:0"] * 2


def test_mapped_outputs_that_nothing_reads(graph):
    hf.import_graph_def(parsed(READ), input_map={"x:0": hf.constant(1.0)})
    with pytest.raises(ValueError, match=r"not found in graph_def: \[x:1\]"):
        hf.import_graph_def(parsed(READ), input_map={"x:1": hf.constant(1.0)})


def test_names_of_scopes_are_taken(graph):
    with hf.name_scope("x"):
        hf.constant(1)
    assert imported(READ, ["x"], name="")[0].name == "x_1"


def test_defaults_of_newer_definitions_are_dropped(graph):
    newer = text_format.Parse(
        'op { name: "Placeholder" attr { name: "newer" type: "int" default_value { i: 4 } } }',
        op_def_pb2.OpList())
    node = READ.replace("} } }", "} } attr { key: 'newer' value { i: %d } } }")
    op, = imported(node % 4, ["x"], producer_op_list=newer)
    with pytest.raises(ValueError, match="newer"):
        op.get_attr("newer")
    with pytest.raises(ValueError, match="newer"):
        imported(node % 5, ["x"], producer_op_list=newer)


def test_a_failed_import_takes_no_names(graph):
    wrong = READ + 'node { name: "y" op: "Placeholder" input: "x" }'
    with pytest.raises(ValueError, match="is missing a value"):
        hf.import_graph_def(parsed(wrong), name="")
    assert imported(READ, ["x"], name="")[0].name == "x"


def test_constants_in_lists_are_numbered(graph):
    x = hf.placeholder(hf.float32, [2])
    hf.concat([x, [1.0, 2.0]], 0)
    hf.string_join(["a", hf.constant("b")])
    names = {op.name for op in graph.get_operations()}
    assert {"concat/values_1", "StringJoin/inputs_0"} <= names
