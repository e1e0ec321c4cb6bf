"""Damaged graphs end in errors that say what is wrong, with the node."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from tensorboard.compat.proto import graph_pb2

import hpcflow as hf

CONST = 'node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_INT64 } } %s }'
BIG = ('attr { key: "value" value { tensor { dtype: DT_INT64 tensor_shape { dim { size: 2147483648 '
       '} } } } }')
CASES = {
    "_class of numbers": (
        'node { name: "n" op: "NoOp" attr { key: "_class" value { list { i: 1 } } } }',
        "Node 'n'.*'_class' must be a list of strings"),
    "_output_shapes of numbers": (
        'node { name: "n" op: "NoOp" attr { key: "_output_shapes" value { i: 3 } } }',
        "Node 'n'.*'_output_shapes' must be a list of shapes"),
    "a constant of 2^31": (
        CONST % BIG, "Node 'c'.*claims 17179869184 bytes"),
    "N of 2^31": (
        '''node { name: "p" op: "Pack" attr { key: "N" value { i: 2147483648 } }
        attr { key: "T" value { type: DT_FLOAT } } }''', "Node 'p'.*2147483648 tensors"),
    "a control input from the next iteration": (
        '''node { name: "a" op: "NoOp" input: "^x" }
        node { name: "x" op: "NextIteration" input: "y"
               attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "y" op: "Identity" input: "x" input: "^a"
               attr { key: "T" value { type: DT_FLOAT } } }''', "Control input '\\^x'|cycle"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_said(name):
    text, message = CASES[name]
    graph = text_format.Parse(text, graph_pb2.GraphDef())
    with hf.Graph().as_default(), pytest.raises(ValueError, match=message):
        hf.import_graph_def(graph, name="")


def test_a_collection_that_cannot_be_restored_is_named():
    with hf.Graph().as_default():
        hf.Variable(1.0)
        meta = hf.train.export_meta_graph()
    meta.collection_def["variables"].bytes_list.value[0] = b"\x0a\xff"
    with hf.Graph().as_default(), pytest.raises(ValueError, match="collection 'variables'"):
        hf.train.import_meta_graph(meta)


def test_a_loop_that_is_entered_from_inside_is_no_loop():
    """An endless walk over the contexts of such a graph would hang the import."""
    with hf.Graph().as_default() as graph:
        hf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + 1.0), [0, 0.0])
        damaged = graph.as_graph_def()
    first, second = [n for n in damaged.node if n.op == "Enter"]
    body = next(n for n in damaged.node if n.op == "Merge" and first.name in n.input)
    second.input.append(f"^{body.name}")
    with hf.Graph().as_default() as graph:
        hf.import_graph_def(damaged, name="")
        assert len(graph.get_operations()) == len(damaged.node)
