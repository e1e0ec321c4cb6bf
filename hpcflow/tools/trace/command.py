"""``hpcflow trace``: merge the traces of sessions, draw them, and say why a step is slow.

A trace is a file with the RunMetadata of a traced step (or its StepStats), or what `merge` wrote,
or the JSON of a Timeline. Ranks that run sessions of their own write one each; `merge` puts them
into one for Perfetto or chrome://tracing, with clocks aligned by what was exchanged.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from hpcflow.tools.cli import (
    CommandError,
    CommandParser,
    command_parser,
    first_line,
    output_file,
    whole,
)
from hpcflow.tools.trace.chrome import draw, text_of
from hpcflow.tools.trace.clocks import Offset, aligned
from hpcflow.tools.trace.spans import Span, read_spans
from hpcflow.tools.trace.summary import summary
from hpcflow.tools.trace.summary import text_of as summary_text


def parser() -> CommandParser:
    """The commands and their options."""
    made = command_parser("trace", __doc__)
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    one = commands.add_parser("merge", help="draw one trace of several", description=(
        "Draw one trace of those of several sessions, such as the ranks of an allreduce job."))
    one.add_argument("files", nargs="+", type=Path, metavar="FILE", help="traces of one step")
    one.add_argument("-o", "--output", type=output_file, required=True, metavar="FILE",
                     help="the JSON file to write, for Perfetto or chrome://tracing")
    one.add_argument("--no-memory", action="store_true", help="leave out the counters of memory")
    one.set_defaults(run=_merge)
    one = commands.add_parser("summary", help="say why a step is slow", description=(
        "Print the critical path of a step, how ranks spent it, and what went between them."))
    one.add_argument("files", nargs="+", type=Path, metavar="FILE", help="traces of one step")
    one.add_argument("--top", type=whole(0), default=20, metavar="N",
                     help="spans and edges to show, 0 for all (default: 20)")
    one.add_argument("--json", action="store_true", help="print a JSON object")
    one.set_defaults(run=_summary)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands; returns the exit status."""
    options = parser().parse_args(argv)
    try:
        return options.run(options)
    except (OSError, ValueError) as error:
        raise CommandError(first_line(error)) from error


def _merge(options: argparse.Namespace) -> int:
    spans, offsets = aligned(read_spans(options.files))
    options.output.write_text(text_of(draw(spans, offsets, memory=not options.no_memory)))
    print(f"wrote {options.output}: {len(spans)} spans of {len({s.task for s in spans})} tasks"
          + _told(offsets))
    return 0


def _told(offsets: dict[str, Offset]) -> str:
    moved = {task: offset.added for task, offset in offsets.items() if offset.added}
    if not moved:
        return "; the clocks agree"
    return "; clocks moved: " + ", ".join(f"{t} by {x:+.0f} us" for t, x in moved.items())


def _summary(options: argparse.Namespace) -> int:
    spans: list[Span]
    spans, offsets = aligned(read_spans(options.files))
    found = summary(spans)
    if options.json:
        told = {task: offset.added for task, offset in offsets.items()}
        print(json.dumps({**found, "clock_offsets_us": told}, indent=1))
    else:
        print(summary_text(found, options.top))
    return 0
