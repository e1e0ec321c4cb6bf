"""frames: which loop every node of a step belongs to.

A loop is entered through Enter nodes with its frame name and left through Exit nodes; what it
reads from outside comes through Enter nodes too. So the frame of a node follows from any of its
inputs.
"""

from __future__ import annotations

from collections.abc import Callable

from hpcflow.compiler.ir.explain import node_error
from hpcflow.compiler.ir.step_graph import BACK_EDGE_TYPES, ENTER_TYPES, EXIT_TYPES, Node, StepGraph
from hpcflow.errors import InvalidArgumentError


class FrameInfo:
    """A loop of the graph, or the root (no name, no parent)."""

    __slots__ = ("name", "parent", "children", "parallel", "depth")

    def __init__(self, name: str, parent: FrameInfo | None, parallel: int = 1) -> None:
        self.name = name
        self.parent = parent
        self.children: dict[str, FrameInfo] = {}
        self.parallel = parallel
        self.depth: int = 0 if parent is None else parent.depth + 1

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the frames from the outermost loop down to this; empty for the root."""
        return () if self.parent is None else (*self.parent.path, self.name)

    def child(self, enter: Node) -> FrameInfo:
        """The frame that an Enter node of this frame leads into."""
        name = enter.attrs["frame_name"].decode()
        found = self.children.get(name)
        if found is None:
            parallel = max(int(enter.attrs.get("parallel_iterations", 10)), 1)
            found = self.children[name] = FrameInfo(name, self, parallel)
        return found


def assign_frames(order: list[Node], root: FrameInfo,
                  is_known: Callable[[Node], bool]) -> dict[Node, FrameInfo]:
    """The frame of each node; `order` has producers first, back edges excepted.

    ``is_known(node)`` tells constants and resources, which are the same everywhere. Raises
    ``InvalidArgumentError`` for a node with inputs from different frames.
    """
    frames: dict[Node, FrameInfo] = {}
    back_edges: list[tuple[Node, Node]] = []
    for node in order:
        found: FrameInfo | None = None
        origin: Node | None = None
        for source in [*(s for s, _ in node.inputs), *node.controls]:
            if source.type in BACK_EDGE_TYPES:
                back_edges.append((node, source))
                continue
            if source not in frames or is_known(source):
                continue
            frame = frame_after(source, frames[source])
            if found is not None and frame is not found:
                raise _mixed(node, origin, found, source, frame)
            found, origin = frame, source
        frames[node] = found or _next_frame(node, frames) or root
    _check_back_edges(back_edges, frames)
    return frames


def _check_back_edges(edges: list[tuple[Node, Node]], frames: dict[Node, FrameInfo]) -> None:
    """A value for the next iteration of a loop can only go to a node of that loop."""
    for node, source in edges:
        if source in frames and frames[source] is not frames[node]:
            raise node_error(
                InvalidArgumentError,
                f"The node '{node.name}' in frame '{frames[node].name}' waits for '{source.name}' "
                f"in frame '{frames[source].name}': what comes after a loop must read an Exit",
                node)


def _next_frame(node: Node, frames: dict[Node, FrameInfo]) -> FrameInfo | None:
    """The frame of a node that reads nothing but what goes into the next iteration."""
    return next((frames[s] for s, _ in node.inputs if s in frames and s.type in BACK_EDGE_TYPES),
                None)


def frame_after(source: Node, frame: FrameInfo) -> FrameInfo:
    """The frame that the readers of `source` are in."""
    if source.type in ENTER_TYPES:
        return frame.child(source)
    if source.type in EXIT_TYPES:
        if frame.parent is None:
            raise node_error(InvalidArgumentError, "An Exit node outside every loop", source)
        return frame.parent
    return frame


def same_everywhere(node: Node) -> bool:
    """True if the value of `node` is the same in all iterations: for constants and for handles of
    state."""
    if node.inputs or node.controls:
        return False
    return node.is_const or any(t._is_ref_dtype or t.name == "resource" for t in node.dtypes)


def nodes_in_loops(graph: StepGraph) -> set[Node]:
    """The nodes of all loops of a graph that is not yet spread over tasks."""
    if not any(n.type in ENTER_TYPES for n in graph.nodes):
        return set()
    root = FrameInfo("", None)
    return {n for n, frame in assign_frames(graph.nodes, root, same_everywhere).items()
            if frame is not root}


def _mixed(node: Node, one: Node | None, a: FrameInfo, other: Node, b: FrameInfo) -> Exception:
    name = one.name if one is not None else ""
    return node_error(
        InvalidArgumentError,
        f"The node '{node.name}' has inputs from different frames: '{name}' is in frame "
        f"'{a.name}', '{other.name}' in frame '{b.name}'; what a loop reads from outside must come "
        "through Enter", node)
