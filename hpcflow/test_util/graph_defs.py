"""Comparison of GraphDefs and MetaGraphDefs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hpcflow.graph.importer import import_graph_def
from hpcflow.metagraph.collection_protos import proto_functions

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.graph import Graph
    from hpcflow.test_util.case import TestCase

# The random part of the names of files that a checkpoint is first written to.
_TEMPORARY = re.compile(rb"_temp_[0-9a-z]{32}/part")


def assert_ops_in_graph(expected_ops: dict[str, str], graph: Graph) -> dict[str, Message]:
    """Return the nodes of the operations of a graph that `expected_ops`, name to type, tells of.

    Raises ``ValueError`` if one is missing or of another type.
    """
    found = {n.name: n for n in graph.as_graph_def().node if n.name in expected_ops}
    for name, op_type in expected_ops.items():
        if name not in found:
            raise ValueError(f"Expected the operation '{name}', which the graph does not have")
        if found[name].op != op_type:
            raise ValueError(f"Expected the operation '{name}' of type {op_type}, which is of type "
                             f"{found[name].op}")
    return found


def get_node_def_from_graph(node_name: str, graph_def: Message) -> Message | None:
    """Return the node of a GraphDef that has this name, or None."""
    return next((n for n in graph_def.node if n.name == node_name), None)


def set_producer_version(graph: Graph, producer_version: int) -> None:
    """Let the GraphDef of a graph say that a program of that version has made it."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    graph_def = GraphDef()
    graph_def.versions.producer = producer_version
    with graph.as_default():
        import_graph_def(graph_def)


def assert_equal_graph_def(actual: Any, expected: Message, checkpoint_v2: bool = False,
                           hash_table_shared_name: bool = False) -> None:
    """Raise ``AssertionError`` unless two GraphDefs have the same nodes, in whatever order.

    Attributes whose names begin with an underscore are not compared, nor are versions.
    `checkpoint_v2`: nor is the random part of the names of temporary checkpoint files.

    Raises ``TypeError`` for other types than GraphDef.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    for name, graph_def in (("actual", actual), ("expected", expected)):
        if not isinstance(graph_def, GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {name}, got {type(graph_def).__name__}")
    left_out = ("shared_name",) if hash_table_shared_name else ()
    found, wanted = (_nodes(g, checkpoint_v2, left_out) for g in (actual, expected))
    problems = [f"Did not find expected node '{{{{node {name}}}}}'"
                for name in sorted(set(wanted) - set(found))]
    problems += [f"Found unexpected node '{{{{node {name}}}}}'"
                 for name in sorted(set(found) - set(wanted), reverse=True)]
    problems += [f"node '{name}' is {found[name]}, expected {wanted[name]}"
                 for name in wanted if name in found and found[name] != wanted[name]]
    if problems:
        raise AssertionError("; ".join(problems))


def _nodes(graph_def: Message, checkpoint_v2: bool,
           of_tables: tuple[str, ...] = ()) -> dict[str, tuple]:
    """By name what is compared of each node, without the attributes `of_tables` of hash tables."""
    return {n.name: (n.op, n.device, *_inputs(n),
                     _attrs(n, checkpoint_v2, of_tables if "HashTable" in n.op else ()))
            for n in graph_def.node}


def _inputs(node: Message) -> tuple[list[str], list[str]]:
    data = [i.removesuffix(":0") for i in node.input if not i.startswith("^")]
    return data, sorted(i for i in node.input if i.startswith("^"))


def _attrs(node: Message, checkpoint_v2: bool, left_out: tuple[str, ...]) -> dict[str, bytes]:
    attrs = {k: v.SerializeToString(deterministic=True) for k, v in node.attr.items()
             if not k.startswith("_") and k not in left_out}
    if checkpoint_v2:
        attrs = {k: _TEMPORARY.sub(b"_temp_", v) for k, v in attrs.items()}
    return attrs


def assert_meta_graph_protos_equal(tester: TestCase, a: Any, b: Any) -> None:
    """Fail the test case `tester` unless two MetaGraphDefs say the same, in whatever order.

    Both are without their collections and nodes afterwards.
    """
    tester.assertEqual(set(a.collection_def), set(b.collection_def))
    for key in a.collection_def:
        _assert_collections_equal(tester, key, a.collection_def[key], b.collection_def[key])
    assert_equal_graph_def(a.graph_def, b.graph_def, checkpoint_v2=True)
    tester.assertProtoEquals(a.graph_def.versions, b.graph_def.versions)
    for meta in (a, b):
        meta.ClearField("collection_def")
        meta.ClearField("graph_def")
    tester.assertProtoEquals(a, b)


def _assert_collections_equal(tester: TestCase, key: str, a: Message, b: Message) -> None:
    functions = proto_functions(key)
    if functions is None:
        tester.assertEqual(a, b)
        return
    items = [[functions.proto_type().FromString(item) for item in c.bytes_list.value]
             for c in (a, b)]
    tester.assertEqual(*items)
