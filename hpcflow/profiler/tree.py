"""The nodes of a profile: numbers of their own, and of everything below them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

NUMBERS = ("float_ops", "parameters", "exec_micros", "accelerator_exec_micros", "cpu_exec_micros",
           "requested_bytes", "peak_bytes", "residual_bytes", "output_bytes", "run_count",
           "definition_count")
_OF_OPTION = {"params": "parameters", "micros": "exec_micros", "bytes": "requested_bytes",
              "accelerator_micros": "accelerator_exec_micros", "cpu_micros": "cpu_exec_micros",
              "occurrence": "definition_count"}


def number_of(option: str) -> str:
    """The name of a number in a node for that in the options: ``parameters`` for ``params``."""
    return _OF_OPTION.get(option, option)


class ProfileNode:
    """A node of a profile.

    Attributes:
        name: an op's name, a name scope, an op type or a line of code.
        children: the nodes below that are shown.
        float_ops, parameters, exec_micros, accelerator_exec_micros, cpu_exec_micros,
            requested_bytes, run_count, ...: numbers of the node itself.
        total_float_ops, ...: those of everything that is shown at and below it.
        shapes: static shapes of a variable.
        graph_nodes: the operations of which a type or a line is made.
        types: its op type, its device, and ``_trainable_variables``.
    """

    float_ops: int
    parameters: int
    definition_count: int

    def __init__(self, name: str, types: Iterable[str] = ()) -> None:
        self.name, self.types = name, set(types)
        self.children: list[ProfileNode] = []
        self.shapes: list[tuple] = []
        self.graph_nodes: list[ProfileNode] = []  # of which a type or a line is made
        self.is_hidden = False
        for number in NUMBERS:
            setattr(self, number, 0)
            setattr(self, f"total_{number}", 0)

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> int: ...

    def add(self, other: ProfileNode) -> None:
        """Add the numbers of another node to those of this one."""
        for number in NUMBERS:
            setattr(self, number, getattr(self, number) + getattr(other, number))
        self.graph_nodes = [*self.graph_nodes, other]

    def __repr__(self) -> str:
        numbers = {n: getattr(self, f"total_{n}") for n in NUMBERS if getattr(self, f"total_{n}")}
        return f"ProfileNode({self.name!r}, {numbers})"


def shown(root: ProfileNode, options: dict[str, Any]) -> ProfileNode:
    """The part of a tree that options ask for, with totals."""
    keep = _Filter(options)
    result = _copied(root)
    for child in root.children:
        result.children += keep.tree(child, 1, False)
    _count(result)
    _lift(result)
    _sort(result, options["order_by"])
    return result


def _copied(node: ProfileNode) -> ProfileNode:
    result = ProfileNode(node.name, node.types)
    vars(result).update({k: v for k, v in vars(node).items() if k != "children"})
    return result


def _matches(regexes: Iterable[str], text: str) -> bool:
    return any(re.fullmatch(r, text) for r in regexes)


class _Filter:
    """Which nodes are shown, and which are counted."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.least = {number_of(k[4:]): v for k, v in options.items() if k.startswith("min_") and v}
        self.selected = [number_of(s) for s in options["select"]]

    def counts(self, node: ProfileNode) -> bool:
        return any(_matches(self.options["account_type_regexes"], t) for t in node.types)

    def tree(self, node: ProfileNode, depth: int, started: bool) -> list[ProfileNode]:
        """A node with what is below it, marked as hidden where it is not to be shown."""
        options = self.options
        if _matches(options["trim_name_regexes"], node.name):
            return []
        started = started or _matches(options["start_name_regexes"], node.name)
        own = _copied(node)
        own.children = [n for c in node.children for n in self.tree(c, depth + 1, started)]
        if not self.counts(node):
            _clear(own)
        own.is_hidden = not (started and depth <= options["max_depth"] and self._is_shown(own))
        if own.is_hidden and (options["account_displayed_op_only"] or not started):
            _clear(own)
        return [own]

    def _is_shown(self, node: ProfileNode) -> bool:
        options = self.options
        if not _matches(options["show_name_regexes"], node.name) or _matches(
                options["hide_name_regexes"], node.name):
            return False
        if any(getattr(node, number, 0) < least for number, least in self.least.items()):
            return False
        return _has_shown(node) or any(getattr(node, s, 0) for s in self.selected)


def _has_shown(node: ProfileNode) -> bool:
    return any(not c.is_hidden or _has_shown(c) for c in node.children)


def _clear(node: ProfileNode) -> None:
    for number in NUMBERS:
        setattr(node, number, 0)


def _count(node: ProfileNode) -> None:
    for child in node.children:
        _count(child)
    for number in NUMBERS:
        total = getattr(node, number) + sum(getattr(c, f"total_{number}") for c in node.children)
        setattr(node, f"total_{number}", total)


def _lift(node: ProfileNode) -> None:
    """Put what is below hidden nodes in their places."""
    for child in node.children:
        _lift(child)
    node.children = [n for c in node.children for n in (c.children if c.is_hidden else [c])]


def _sort(node: ProfileNode, order: str) -> None:
    key: Callable[[ProfileNode], Any] = (
        (lambda n: n.name) if order in ("name", "depth")
        else (lambda n: (-getattr(n, f"total_{number_of(order)}"), n.name)))
    node.children.sort(key=key)
    for child in node.children:
        _sort(child, order)
