"""``hpcflow profile``: the float operations and parameters of a graph, with a trace times too."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpcflow.errors import OpError
from hpcflow.profiler.profiling import Profiler
from hpcflow.profiler.tree import NUMBERS, ProfileNode, number_of
from hpcflow.tools import table
from hpcflow.tools.cli import CommandError, CommandParser, command_parser, first_line, whole
from hpcflow.tools.graph_files import read_graph, read_run_metadata

_ORDERS = ("float_ops", "params", "micros", "bytes", "occurrence", "name")
_NOTE = "Float operations are counted where static shapes are known."


def parser() -> CommandParser:
    """The options."""
    made = command_parser("profile", "Say what a graph computes and holds; with --trace, how long "
                          "its operations took and the memory they gave.")
    made.add_argument("graph", type=Path, metavar="GRAPH",
                      help="a GraphDef (.pb, .pbtxt) or MetaGraph (.meta)")
    made.add_argument("--trace", action="append", default=[], type=Path, metavar="FILE",
                      help="RunMetadata of a traced step of it; of several the mean is shown")
    made.add_argument("--view", choices=("op", "scope"), default="op",
                      help="by types of operations (default), or by name scopes")
    made.add_argument("--order", choices=_ORDERS, metavar="NUMBER",
                      help=f"largest first: one of {', '.join(_ORDERS)} (default: float_ops; "
                      "micros with --trace)")
    made.add_argument("--depth", type=whole(1), default=2, metavar="N",
                      help="levels of name scopes (default: 2)")
    made.add_argument("--top", type=whole(0), default=30, metavar="N",
                      help="rows to show, 0 for all (default: 30)")
    made.add_argument("--json", action="store_true", help="print a JSON object")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Print the profile."""
    options = parser().parse_args(argv)
    try:
        profiler = Profiler(read_graph(options.graph))
        for number, path in enumerate(options.trace):
            profiler.add_step(number, read_run_metadata(path))
    except (OpError, OSError, ValueError, KeyError) as error:
        raise CommandError(first_line(error)) from error
    order = options.order or ("micros" if options.trace else "float_ops")
    asked = {"output": "none", "max_depth": options.depth, "order_by": order,
             "select": _ORDERS[:-1]}
    by_type = options.view == "op"
    show = profiler.profile_operations if by_type else profiler.profile_name_scope
    root = show(asked)
    rows = [_row(node, by_type) for node in _below(root)]
    if order != "name":
        rows.sort(key=lambda row: -row[number_of(order)])
    if options.json:
        print(json.dumps({"total": _row(root, False), "rows": rows}, indent=1))
        return 0
    print(_text(options, rows, _row(root, False)))
    return 0


def _below(node: ProfileNode) -> Iterator[ProfileNode]:
    for child in node.children:
        yield child
        yield from _below(child)


def _row(node: ProfileNode, own: bool) -> dict[str, Any]:
    """The numbers of a type, or of a scope with all below it."""
    prefix = "" if own else "total_"
    return {"name": node.name, **{n: getattr(node, prefix + n) for n in NUMBERS}}


def _text(options: Any, rows: list[dict[str, Any]], total: dict[str, Any]) -> str:
    columns = ["name", *(n for n in NUMBERS if total[n])]
    shown = rows[: options.top or None]
    lines = [{c: row[c] for c in columns} for row in [*shown, {**total, "name": "all"}]]
    notes = [f"{len(rows) - len(shown)} more rows: --top 0"] if len(shown) < len(rows) else []
    return table.render(f"{options.graph}: by {options.view}", lines, [*notes, _NOTE])
