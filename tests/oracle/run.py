"""Compare every op and its gradient with the reference runtime, which runs in a Python of its own.

``python tests/oracle/run.py --peer PYTHON [--ops REGEX] [--sample pinned|all] [--seed N]`` writes
random cases to files, lets both libraries evaluate them, each in its own processes, and compares
what they wrote; with ``--part K/N``, one of N parts of them, over all op types. For each op it
prints the number of cases and the largest error, in units of the dtype's epsilon; the last line is
``N passed, N failed``. Chunks of cases are compared as both have evaluated them: the first
differences of an op are printed when they are found, together with how far the run is.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import condition
import evaluate
import report
from arrays import save
from case import Case, encode
from damage import damaged
from table import Table

SEED = 7
CHUNK = 150
# Seconds from one line about the progress to the next.
PACE = 30.0


def parse_arguments() -> argparse.Namespace:
    """The options of this command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", required=True, metavar="PYTHON",
                        help="a Python that has tensorflow-cpu")
    parser.add_argument("--ops", default="", metavar="REGEX", help="only ops of these types")
    parser.add_argument("--sample", default="pinned", choices=["pinned", "all"],
                        help="each case in one form (default), or in all, with second derivatives")
    parser.add_argument("--part", default="1/1", metavar="K/N", type=parse_part,
                        help="the cases of every op type dealt into N parts: only part K")
    parser.add_argument("--damaged", action="store_true",
                        help="only cases with one input or attribute damaged")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the inputs (default: {SEED})")
    parser.add_argument("--notes", action="store_true", help="also print what is no failure")
    parser.add_argument("--keep", metavar="DIRECTORY", help="keep the files of the cases here")
    return parser.parse_args()


def parse_part(text: str) -> tuple[int, int]:
    """`text`, ``K/N``, as two numbers with 1 <= K <= N."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError
    return part, parts


def deal(cases: list[Case], part: int, parts: int) -> list[Case]:
    """The cases of part `part` of `parts`, in order: each case is in one part, by chance."""
    shuffled = random.Random(SEED).sample(range(len(cases)), len(cases))
    return [cases[i] for i in sorted(shuffled[part - 1::parts])]


def write_cases(cases: list[Case], directory: Path, prefix: str = "") -> list[str]:
    """Write the cases in chunks; returns the names of the chunks."""
    chunks = []
    for start in range(0, len(cases), CHUNK):
        arrays: list = []
        data = [encode(case, arrays) for case in cases[start:start + CHUNK]]
        chunks.append(f"{prefix}{start // CHUNK:04d}")
        save(directory / f"cases-{chunks[-1]}.npz", data, arrays)
    return chunks


def compare_cases(cases: list[Case], peer: str, directory: Path, keep: bool,
                  summary: report.Report) -> None:
    """Let both libraries evaluate the cases; add them to the summary, chunk by chunk."""
    done, told = 0, time.monotonic()
    run = evaluate.Run(peer, directory, write_cases(cases, directory), keep)
    for records in run.records():
        for ours, theirs in zip(records["hpcflow"], records["reference"]):
            summary.add(cases[done], ours, theirs)
            done += 1
        if time.monotonic() - told > PACE:
            told = time.monotonic()
            print(f"{done} of {len(cases)} cases, {summary.failed} failed, "
                  f"{len(summary.doubtful)} doubtful", flush=True)
    settle(peer, directory, summary)


def settle(peer: str, directory: Path, summary: report.Report) -> None:
    """Judge again the cases whose floating values differ, knowing what rounding makes of them."""
    doubtful, summary.doubtful = summary.doubtful, []
    if not doubtful:
        return
    print(f"{len(doubtful)} cases differ by more than their tolerance: how much rounding makes of "
          "them is looked at", flush=True)
    chunks = write_cases(condition.moved([case for case, _, _ in doubtful]), directory, "moved-")
    run = evaluate.Run(peer, directory, chunks, False, ("reference",))
    records = [record for found in run.records() for record in found["reference"]]
    for i, (case, ours, theirs) in enumerate(doubtful):
        others = records[condition.MOVED * i:condition.MOVED * (i + 1)]
        summary.add(case, ours, theirs, condition.moves(theirs, others))


def main() -> int:
    """Run the comparison; the status is 1 if anything differs."""
    arguments = parse_arguments()
    peer = os.path.abspath(arguments.peer)
    print(f"reference: {evaluate.describe_peer(peer)}", flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="oracle-") as temporary:
        directory = Path(arguments.keep or temporary)
        directory.mkdir(parents=True, exist_ok=True)
        ops = evaluate.describe_ops(directory)
        import families  # noqa: F401 - fills the table

        cases = Table(ops, arguments.seed, arguments.sample == "all", arguments.ops).fill()
        worse = damaged(cases, arguments.seed, 1 if arguments.sample == "pinned" else 3, ops)
        cases = deal(worse if arguments.damaged else cases + worse, *arguments.part)
        summary = report.Report(ops, arguments.notes)
        compare_cases(cases, peer, directory, bool(arguments.keep), summary)
        if not arguments.ops and not arguments.damaged and arguments.part == (1, 1):
            evaluate.run_programs(peer, directory)
            summary.add_programs(directory)
            summary.list_uncovered(cases)
        summary.close(time.perf_counter() - started)
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
