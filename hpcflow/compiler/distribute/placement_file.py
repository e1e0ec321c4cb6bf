"""Placements: devices by op name, apart from the graph, and in files.

A placement file has one rule a line, a pattern and a device::

    # regular expressions for the whole name; the first that matches decides
    layer1/.*      /job:ps/task:0
    .*/weights     /job:ps/task:1
    op:MatMul      /device:GPU:0     # "op:" looks at the type
    .*             -                 # no device
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcflow.device_spec import STREAM_ROW, canonical_name
from hpcflow.graph.graph import Graph

if TYPE_CHECKING:
    from google.protobuf.message import Message

NO_DEVICE = "-"
_PLAIN = re.compile(r"[\w/-]+")  # a pattern that matches itself alone

# (name, op type) -> device, or None if no rule says anything
Choice = Callable[[str, str], str | None]


class Placement(dict[str, str]):
    """Pattern of op names (or ``op:`` and a pattern of types) -> device string, "" for none.

    The first pattern that matches the whole name decides.
    """

    def choice(self, where: Callable[[str], str] = "pattern {!r}".format) -> Choice:
        """A function of an op's name and type that gives its device; ``where(pattern)`` is how
        errors name a rule. Raises ``ValueError`` for what is no pattern or no device."""
        exact: dict[str, int] = {}
        patterns: list[tuple[int, bool, re.Pattern]] = []
        devices: list[str] = []
        for number, (pattern, device) in enumerate(self.items()):
            devices.append(checked_device(device, where(pattern)))
            if _PLAIN.fullmatch(pattern):
                exact[pattern] = number
                continue
            by_type = pattern.startswith("op:")
            try:
                patterns.append((number, by_type, re.compile(pattern[3:] if by_type else pattern)))
            except re.error as e:
                raise ValueError(f"{where(pattern)}: {pattern!r} is no regular expression: {e}"
                                 ) from None

        def choose(name: str, op_type: str) -> str | None:
            found = exact.get(name, len(devices))
            for number, by_type, regex in patterns:
                if number > found:
                    break
                if regex.fullmatch(op_type if by_type else name):
                    return devices[number]
            return devices[found] if found < len(devices) else None

        return choose

    def device_of(self, name: str, op_type: str = "") -> str | None:
        """The device for one op; None if nothing is said of it."""
        return self.choice()(name, op_type)

    def save(self, path: str | os.PathLike) -> None:
        """Write a placement file."""
        width = max(map(len, self), default=0)
        lines = [f"{p:{width}}  {d or NO_DEVICE}\n" for p, d in self.items()]
        Path(path).write_text("".join(lines), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike) -> Placement:
        """Read a placement file. Raises ``ValueError`` naming the line that is wrong."""
        found, lines = cls(), {}
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                words = re.sub(r"(^|\s)#.*", "", line).split()
                where = f"{os.fspath(path)}:{number}"
                if words and len(words) != 2:
                    raise ValueError(f"{where}: expected a pattern and a device, got "
                                     f"{line.strip()!r}")
                if words and words[0] not in found:
                    found[words[0]] = "" if words[1] == NO_DEVICE else words[1]
                    lines[words[0]] = where
        found.choice(lines.__getitem__)
        return found

    def __call__(self, op: Any) -> str | None:
        """A device function for ``hf.device``: the device of ops as they are created."""
        found = self.device_of(op.name, op.type)
        return found if found is not None else op.device

    def apply(self, graph: Graph, clear: bool = False) -> None:
        """Set the requested devices of the ops of `graph`, a graph or a ``GraphDef``; with `clear`
        the others lose theirs."""
        choose = self.choice()
        if isinstance(graph, Graph):
            for op in graph.get_operations():
                found = choose(op.name, op.type)
                if found is not None or clear:
                    op._set_device(found or "")
            return
        for node in graph.node:
            found = choose(node.name, node.op)
            if found is not None or clear:
                node.device = found or ""

    @classmethod
    def of(cls, run_metadata: Message) -> Placement:
        """Where the ops of a traced step ran, from its ``RunMetadata``."""
        found = cls()
        for device in run_metadata.step_stats.dev_stats:
            if STREAM_ROW in device.device:  # what the device did: its ops have a row of their own
                continue
            for node in device.node_stats:
                if not node.node_name.startswith("_") and "/_send" not in node.node_name and (
                        "/_recv" not in node.node_name):
                    found[re.escape(node.node_name)] = device.device
        return found


def checked_device(device: str, where: str) -> str:
    """`device` in its canonical form; ``ValueError`` naming `where` if it is none."""
    try:
        return canonical_name(device) if device else ""
    except ValueError as e:
        raise ValueError(f"{where}: {e}") from None
