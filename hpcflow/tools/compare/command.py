"""``hpcflow compare``: run two graphs, or one in two runtimes, and compare them node by node."""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hpcflow
from hpcflow.errors import OpError
from hpcflow.graph.graph import Graph
from hpcflow.tools import table
from hpcflow.tools.bench.child import MODULES
from hpcflow.tools.cli import (
    CommandError,
    CommandParser,
    at_least_zero,
    command_parser,
    first_line,
)
from hpcflow.tools.compare import graph_child
from hpcflow.tools.compare.choosing import Choice, choose
from hpcflow.tools.compare.differences import Difference, difference
from hpcflow.tools.graph_files import read_graph

_ABOUT = """Run two graphs, or one in two runtimes, on the same values, and compare the values of
all nodes whose names agree, in the order of the graph. What random operations draw for the first is
given to the second. Operations that change variables or write files are not run, nor what needs
them; what is inside of loops and conditionals is not compared. The difference of a tensor is the
largest of its elements, in units of the largest magnitude."""
_FED = "x, or x:0"


def parser() -> CommandParser:
    """The options."""
    made = command_parser("compare", _ABOUT)
    made.add_argument("first", type=Path, metavar="GRAPH",
                      help="a GraphDef (.pb, .pbtxt) or MetaGraph (.meta)")
    made.add_argument("second", type=Path, nargs="?", metavar="OTHER",
                      help="another one; the same one if there is a --peer")
    made.add_argument("--peer", type=_peer, metavar="PYTHON",
                      help="run the second in this Python's runtime; NAME=PYTHON for one of "
                      f"{', '.join(n for n in MODULES if n != 'torch')} (default: tensorflow)")
    made.add_argument("--feeds", type=Path, metavar="FILE",
                      help=f"values of inputs, or of any tensors: arrays by name ({_FED}) in a "
                      "file of numpy.savez")
    made.add_argument("--init", default="", metavar="OPERATION",
                      help="run this first, in both: one that initializes variables")
    made.add_argument("--nodes", type=_pattern, default="", metavar="REGEX",
                      help="compare tensors whose names match")
    made.add_argument("--bound", type=at_least_zero, default=1e-5, metavar="NUMBER",
                      help="differences above it are marked (default: 1e-5)")
    made.add_argument("--all", action="store_true", help="show tensors without a difference too")
    made.add_argument("--json", action="store_true", help="print a JSON object")
    return made


def _peer(text: str) -> tuple[str, str]:
    """``PYTHON`` or ``NAME=PYTHON`` as the module of the runtime and the program."""
    name, _, python = text.rpartition("=")
    name = name or "tensorflow"
    if name not in MODULES or name == "torch":
        raise argparse.ArgumentTypeError(f"no graphs of '{name}' are known")
    if shutil.which(python) is None:
        raise argparse.ArgumentTypeError(f"no such program: '{python}'")
    return MODULES[name], python


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from None
    return text


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; status 1 where a difference is over the bound."""
    options = parser().parse_args(argv)
    if options.second is None and options.peer is None:
        raise CommandError("expected a second graph, or a --peer to run the first one in")
    try:
        graphs = [read_graph(path) for path in (options.first, options.second) if path is not None]
        fed = _fed(options.feeds)
        report = _Comparison(options, graphs[0], graphs[-1], fed).run()
    except (OpError, OSError, ValueError, KeyError) as error:
        raise CommandError(first_line(error)) from error
    print(json.dumps(report, indent=1) if options.json else _text(options, report))
    return 0 if report["first_over"] is None else 1


def _fed(path: Path | None) -> dict[str, np.ndarray]:
    if path is None:
        return {}
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile):
        found = None
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise ValueError(f"{path} is not a file of numpy.savez")
    with found:
        return {name if ":" in name else f"{name}:0": found[name] for name in found.files}


class _Comparison:
    """Runs both sides."""

    def __init__(self, options: Any, first: Graph, second: Graph,
                 fed: Mapping[str, np.ndarray]) -> None:
        self._options, self._graphs = options, (first, second)
        self._fed = [{name: value for name, value in fed.items() if _has(graph, name)}
                     for graph in self._graphs]
        unknown = [name for name in fed if not any(name in known for known in self._fed)]
        if unknown:
            raise ValueError(f"no graph has a tensor {unknown[0]!r}, which {options.feeds} feeds")

    def run(self) -> dict[str, Any]:
        """Return what is to be printed."""
        choices = [choose(graph, known) for graph, known in zip(self._graphs, self._fed)]
        theirs, wanted = set(choices[1].names), re.compile(self._options.nodes)
        common = [n for n in choices[0].names if n in theirs and wanted.search(n)]
        drawn, _ = self._first([n for n in choices[0].random if n in theirs])
        for known in self._fed:
            known.update(drawn)
        names = [n for n in common if n not in drawn]
        if not names:
            raise ValueError("no tensor can be compared: " + "; ".join(
                self._notes(choices, drawn) or ["the graphs have no names in common"]))
        ours, ours_failed = self._first(names)
        others, others_failed = self._second(names)
        rows = []
        for name in names:
            errors = [failed.get(name) for failed in (ours_failed, others_failed)]
            if all(errors):
                continue
            rows.append(_failure(name, *errors) if any(errors) else difference(
                name, ours[name], others[name]))
        both = sum(n in others_failed for n in ours_failed)
        return self._report(rows, [*self._notes(choices, drawn), *(
            [f"{both} tensors fail in both: {next(iter(ours_failed.values()))}"] if both else [])])

    def _first(self, names: list[str]) -> tuple[dict, dict]:
        return _run_here(self._graphs[0], names, self._fed[0], self._options.init)

    def _second(self, names: list[str]) -> tuple[dict, dict]:
        graph, fed = self._graphs[1], self._fed[1]
        if self._options.peer is None:
            return _run_here(graph, names, fed, self._options.init)
        return _run_there(self._options.peer, graph, names, fed, self._options.init)

    def _notes(self, choices: list[Choice], drawn: Mapping[str, Any]) -> list[str]:
        notes = []
        only = [len(set(a.names) - set(b.names) - set(b.left_out)) for a, b in (
            choices, reversed(choices))]
        for count, which in zip(only, ("first", "second")):
            if count and self._graphs[0] is not self._graphs[1]:
                notes.append(f"{count} tensors are only in the {which} graph")
        if choices[0].unfed:
            notes.append(f"inputs without a value: {_some(choices[0].unfed)}")
        if choices[0].writers:
            notes.append(f"not run, because they change state: {_some(choices[0].writers)}")
        if choices[0].left_out:
            notes.append(f"{len(choices[0].left_out)} tensors need these, or are inside of "
                         "loops and conditionals")
        if drawn:
            notes.append(f"drawn for the first, and given to the second: {_some(list(drawn))}")
        return notes

    def _report(self, rows: list[Difference], notes: list[str]) -> dict[str, Any]:
        over = [row.tensor for row in rows if row.relative > self._options.bound]
        return {"compared": len(rows), "bound": self._options.bound, "over": len(over),
                "first_over": over[0] if over else None, "notes": notes,
                "tensors": [{**vars(row), "over": row.relative > self._options.bound}
                            for row in rows]}


def _failure(name: str, first: str | None, second: str | None) -> Difference:
    """The difference where one side has no value."""
    side = "second" if first is None else "first"
    return Difference(name, absolute=math.inf, relative=math.inf,
                      what=f"fails in the {side}: {first or second}")


def _has(graph: Graph, name: str) -> bool:
    try:
        graph.get_tensor_by_name(name)
    except (KeyError, ValueError):
        return False
    return True


def _run_here(graph: Graph, names: list[str], fed: Mapping[str, Any],
              first: str) -> tuple[dict, dict]:
    return graph_child.run_graph(hpcflow, graph.as_graph_def().SerializeToString(), names, fed,
                                 first) if names else ({}, {})


def _run_there(peer: tuple[str, str], graph: Graph, names: list[str], fed: Mapping[str, Any],
               first: str) -> tuple[dict, dict]:
    """Run a graph in the peer's Python."""
    module, python = peer
    with tempfile.TemporaryDirectory() as folder:
        request, answer = f"{folder}/request.npz", f"{folder}/answer.npz"
        np.savez(request, graph=np.frombuffer(graph.as_graph_def().SerializeToString(), np.uint8),
                 names=np.array(names), first=np.array(first), allow_pickle=False,
                 **{f"fed:{name}": graph_child.plain(value) for name, value in fed.items()})
        done = subprocess.run([python, graph_child.__file__, module, request, answer],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["without a message"]
            raise CommandError(f"{python} failed: {lines[-1]}")
        if not Path(answer).exists():
            raise CommandError(f"{python} has not answered: expected a Python")
        with np.load(answer) as found:
            split = [(key.partition(":"), found[key]) for key in found.files]
    return ({name: value for (kind, _, name), value in split if kind == "value"},
            {name: str(value) for (kind, _, name), value in split if kind == "error"})


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _text(options: Any, report: dict[str, Any]) -> str:
    shown = [row for row in report["tensors"] if options.all or row["absolute"] or row["what"]]
    lines = [{"tensor": row["tensor"], "type": row["dtype"], "shape": row["shape"],
              "absolute": row["absolute"], "relative": row["relative"], "": _mark(row, report)}
             for row in shown]
    title = f"{report['compared']} tensors compared, {report['over']} over {report['bound']:g}"
    if not lines:
        return "\n".join([title, *report["notes"]])
    return table.render(title, lines, report["notes"])


def _mark(row: dict[str, Any], report: dict[str, Any]) -> str:
    mark = "<- the first over the bound" if row["tensor"] == report["first_over"] else (
        "over" if row["over"] else "")
    return "  ".join(part for part in (mark, row["what"]) if part)
