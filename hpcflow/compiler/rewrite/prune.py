"""prune: the part of the graph that the fetches need, cut at the feeds."""

from __future__ import annotations

import numpy as np

from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    FEED,
    FETCH,
    KEEP,
    Node,
    StepGraph,
    new_node,
    topological,
)
from hpcflow.compiler.rewrite.dead_code import is_pure
from hpcflow.dtypes import bool as hpcflow_bool
from hpcflow.graph.operation import Operation, Tensor


def prune(fetches: list[Tensor | Operation], feeds: list[Tensor], client_device: str,
          incremental: bool = False) -> StepGraph:
    """Copy what `fetches` depend on; a fed tensor's producer is replaced by a feed node.

    Tensors fetched become fetch nodes on `client_device`, in the order given; operations fetched
    become fetch nodes that only wait, for a reader of the values where there are any, because a
    fetched operation always runs; in an `incremental` step they give False when they are done.
    """
    feed_nodes = [_feed(t, i, client_device) for i, t in enumerate(feeds)]
    fed = {(t.op, t.value_index): n for t, n in zip(feeds, feed_nodes, strict=True)}
    ops = _needed(fetches, fed)
    nodes = {op: _copy(op) for op in ops}
    for op, node in nodes.items():
        node.inputs = [_source(t, fed, nodes) for t in op._inputs]
        node.controls = _controls(op, fed, nodes, incremental)
    fetched = [f for f in dict.fromkeys(fetches) if isinstance(f, Operation)]
    keeps = {f: _keep(nodes[f]) for f in fetched if is_pure(nodes[f])}
    ends = nodes | keeps
    markers = {f: _marker(f, ends, client_device) for f in fetched if incremental}
    fetch_nodes = [_fetch_marker(markers[f], i) if f in markers
                   else _fetch(f, i, fed, ends if isinstance(f, Operation) else nodes,
                                client_device) for i, f in enumerate(fetches)]
    graph = StepGraph([*feed_nodes, *nodes.values(), *keeps.values(), *markers.values(),
                       *fetch_nodes], feed_nodes, fetch_nodes, incremental)
    if any(op.type in BACK_EDGE_TYPES or _is_rewired(op) for op in ops):
        graph.nodes = topological(graph.nodes)
    return graph


def _needed(fetches: list, fed: dict) -> list[Operation]:
    """The operations to copy, in construction order: producers come first, unless it is rewired."""
    seen: set[Operation] = set()
    stack = [f if isinstance(f, Operation) else f.op for f in fetches
             if isinstance(f, Operation) or (f.op, f.value_index) not in fed]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        stack.extend(c for c in op._control_inputs if not _is_fed(c, fed))
        for tensor in op._inputs:
            source = tensor._op
            if source not in seen and (source, tensor._value_index) not in fed:
                stack.append(source)
    return sorted(seen, key=lambda op: op._id)


def _is_rewired(op: Operation) -> bool:
    """True if the operation reads or waits for one that was made after it."""
    return any([t._op._id > op._id for t in op._inputs]) or any(
        [c._id > op._id for c in op._control_inputs])


def _is_fed(op: Operation, fed: dict) -> bool:
    """True for a placeholder that has its value from a feed: it does not run."""
    return op.type in ("Placeholder", "PlaceholderV2") and (op, 0) in fed


def _controls(op: Operation, fed: dict, nodes: dict[Operation, Node],
              incremental: bool) -> list[Node]:
    """Return the nodes that `op` waits for; feeds are there from the start, unless they come one by
    one."""
    return [fed[c, 0] if _is_fed(c, fed) else nodes[c] for c in op._control_inputs
            if incremental or not _is_fed(c, fed)]


def _copy(op: Operation) -> Node:
    return Node(op.type, op.name, op.op_def, op._attrs, [], [], op._device,
                [t._dtype for t in op._outputs], [t._dims for t in op._outputs], op._id, op)


def _source(tensor: Tensor, fed: dict, nodes: dict[Operation, Node]) -> tuple[Node, int]:
    if fed:
        feed = fed.get((tensor._op, tensor._value_index))
        if feed is not None:
            return feed, 0
    return nodes[tensor._op], tensor._value_index


def _feed(tensor: Tensor, index: int, device: str) -> Node:
    attrs = {"dtype": tensor.dtype.base_dtype, "index": index}
    node = new_node(FEED, f"_feed/{tensor.name}", attrs, [], [], device, [tensor._dims], -1)
    node.op = tensor.op
    return node


def _fetch(fetch: Tensor | Operation, index: int, fed: dict, nodes: dict, device: str) -> Node:
    if isinstance(fetch, Operation):
        return new_node("_FetchOp", f"_fetch/{fetch.name}", {"index": index}, [], [nodes[fetch]],
                        device, [], float("inf"))
    attrs = {"T": fetch.dtype.base_dtype, "index": index}
    node = new_node(FETCH, f"_fetch/{fetch.name}", attrs, [_source(fetch, fed, nodes)], [], device,
                    [fetch._dims], float("inf"))
    node.dtypes = [fetch.dtype.base_dtype]  # what the client gets
    node.op = fetch.op
    return node


def _keep(node: Node) -> Node:
    """A reader of all values of `node`, where it is."""
    keep = new_node(KEEP, f"_keep/{node.name}", {"T": [t.base_dtype for t in node.dtypes]},
                    [(node, i) for i in range(len(node.dtypes))], [], node.device, [], node.order)
    keep.op = node.op
    return keep


def _marker(op: Operation, nodes: dict, device: str) -> Node:
    """Return a constant that exists once `op` has run."""
    attrs = {"dtype": hpcflow_bool, "value": np.False_}
    node = new_node("Const", f"_done/{op.name}", attrs, [], [nodes[op]], device, [()],
                    float("inf"))
    node.op = op
    return node


def _fetch_marker(marker: Node, index: int) -> Node:
    attrs = {"T": hpcflow_bool, "index": index}
    node = new_node(FETCH, f"_fetch/{marker.name}", attrs, [(marker, 0)], [], marker.device, [()],
                    float("inf"))
    node.dtypes = [hpcflow_bool]
    node.op = marker.op
    return node
