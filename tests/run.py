"""Run the test rings and close with one line of passes and failures.

Rings: ``graph`` (no MPI, no device), ``process`` (one process), ``job`` (tests that start
processes) and ``mpi`` (under a launcher, once per number of ranks). The process and job rings run
on all cores. Each run has a time limit; what it printed is kept in ``build/tests`` and shown when
it fails. The slowest tests are listed at the end. The last line is ``N passed, N failed`` (``, N
skipped``); the status is non-zero when a test failed, a run hung or crashed, or a ring ran no test.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from processes import SESSION_FOLDER, run_limited
from records import Record, read_records
from speed import slowness

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
CHECKED = ROOT / "build" / "tests" / "checked"  # what gradient checks leave, see gradcheck.py
TAIL_LINES = 120
PYTEST_FRAME = re.compile(r'File ".*/(_pytest|pluggy|pytest)/.*", line \d+ in ')
SLOWEST = 20
CLOCKS = ("seconds", "processor")  # in the records
RESTARTS = 1000  # every process that dies is replaced


@dataclass(frozen=True)
class Ring:
    """Where the tests of a ring are, and the processor seconds that one run of them may use."""

    places: list[Path]
    limit: float
    spread: str | None = None  # how pytest-xdist hands its tests to a process a core, if it does


RINGS = {
    "graph": Ring([TESTS / "test_layers.py", TESTS / "graph_ring"], 200.0),
    "process": Ring([TESTS / "process_ring"], 2000.0, "worksteal"),
    "job": Ring([TESTS / "job_ring"], 1000.0, "loadfile"),
    "mpi": Ring([TESTS / "mpi_ring"], 600.0),
    "gpu": Ring([TESTS / "gpu_ring"], 600.0),
}
ON_REQUEST = ("gpu",)  # rings that run only where they are named


@dataclass(frozen=True)
class Run:
    """One run of one ring: `ranks` is 0 for a run without a launcher."""

    ring: str
    ranks: int = 0
    compile: str | None = None
    rooms: tuple[str, ...] = ()

    @property
    def places(self) -> list[Path]:
        """The files and folders of its tests: of the ring, or of some rooms in it."""
        places = RINGS[self.ring].places
        if not self.rooms:
            return places
        inside = (path for place in places for path in sorted(place.rglob("*/")))
        return [path for path in inside if path.is_dir() and path.name in self.rooms]

    @property
    def title(self) -> str:
        """How the run is called in what is printed."""
        title = f"{self.ring} ring"
        if self.ranks:
            title += f", {self.ranks} rank{'s' if self.ranks > 1 else ''}"
        return title if self.compile is None else f"{title}, HPCFLOW_COMPILE={self.compile}"

    @property
    def directory(self) -> Path:
        """Where its logs and records go."""
        parts = [self.ring, str(self.ranks or ""), f"compile{self.compile}" if self.compile else ""]
        return ROOT / "build" / "tests" / "-".join(part for part in parts if part)


@dataclass
class Outcome:
    """Counts of passed, failed and skipped tests, and what to say about a run that failed."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    tests: list[tuple[float, float, str]] = field(default_factory=list)  # clock, processor, name

    def fail(self, problem: str) -> None:
        """Count one more failure and say why."""
        self.counts["failed"] += 1
        self.problems.append(problem)


def closing_line(counts: Counter[str]) -> str:
    """The line that closes a run: ``N passed, N failed``, and the skipped ones if any."""
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    return f"{line}, {counts['skipped']} skipped" if counts["skipped"] else line


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of this command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ring", action="append", choices=list(RINGS), help="only this ring")
    parser.add_argument(
        "--ranks", default="1,2,4", help="numbers of ranks of the mpi ring (default: 1,2,4)"
    )
    parser.add_argument(
        "--room", action="append", metavar="NAME", default=[], help="only the folders of this name"
    )
    parser.add_argument("-k", dest="keyword", metavar="EXPRESSION", help="as for pytest")
    parser.add_argument("--fast", action="store_true", help="leave out tests marked slow")
    parser.add_argument(
        "--compile",
        metavar="0,1",
        help="run the process and mpi rings once for each of these values of HPCFLOW_COMPILE",
    )
    parser.add_argument(
        "--launcher",
        help="the launcher's command, {n} standing for the number of ranks "
        "(default: mpirun --oversubscribe --bind-to none -n {n})",
    )
    parser.add_argument(
        "-n", dest="workers", type=int, metavar="N", default=len(os.sched_getaffinity(0)),
        help="processes of a ring that runs on all cores (default: one a core)",
    )
    parser.add_argument(
        "--limit", type=float, metavar="SECONDS", help="processor seconds of each run"
    )
    parser.add_argument(
        "--test-limit", type=float, metavar="SECONDS", help="processor seconds of one test"
    )
    return parser.parse_args(argv)


def plan(arguments: argparse.Namespace) -> list[Run]:
    """The runs that the options ask for, in order."""
    forms = arguments.compile.split(",") if arguments.compile else [None]
    sizes = [int(size) for size in arguments.ranks.split(",")]
    rooms = tuple(arguments.room)
    runs: list[Run] = []
    for ring in arguments.ring or [name for name in RINGS if name not in ON_REQUEST]:
        ring_forms = [None] if ring in ("graph", "gpu") else forms
        ring_sizes = sizes if ring == "mpi" else [0]
        runs += [Run(ring, size, form, rooms) for form in ring_forms for size in ring_sizes]
    chosen = [run for run in runs if run.places]
    if not chosen:
        raise SystemExit(f"tests/run.py: no folder of tests is called {' or '.join(rooms)}")
    return chosen


def pytest_arguments(run: Run, arguments: argparse.Namespace) -> list[str]:
    """What pytest is given, apart from where to record the outcomes."""
    options = ["-q", "--tb=short", "--rootdir", str(ROOT), *map(str, run.places)]
    if arguments.keyword:
        options += ["-k", arguments.keyword]
    if arguments.fast:
        options += ["-m", "not slow"]
    if arguments.test_limit:
        options += ["--timeout", str(arguments.test_limit)]
    return options


def command(run: Run, arguments: argparse.Namespace) -> list[str]:
    """The command line of one run."""
    options = pytest_arguments(run, arguments)
    if not run.ranks:
        record = f"--record={run.directory / 'rank0.jsonl'}"
        pytest = [sys.executable, "-m", "pytest", "--continue-on-collection-errors"]
        spread = RINGS[run.ring].spread
        if spread and arguments.workers > 1:
            options += ["-n", str(arguments.workers), "--dist", spread]
            options += ["--max-worker-restart", str(RESTARTS)]
        return [*pytest, *options, record]
    launcher = arguments.launcher or f"{find_mpirun()} --oversubscribe --bind-to none -n {{n}}"
    start = shlex.split(launcher.format(n=run.ranks))
    return [*start, sys.executable, str(TESTS / "rank.py"), str(run.directory), *options]


def find_mpirun() -> str:
    """The mpirun of this environment, else the machine's."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if not found:
        raise SystemExit("tests/run.py: no mpirun in this environment or on PATH")
    return shlex.quote(found)


def environment(run: Run) -> dict[str, str]:
    """The environment of one run."""
    env = dict(os.environ, PYTHONUNBUFFERED="1", TESTS_CHECKED=str(CHECKED))
    if run.compile is not None:
        env["HPCFLOW_COMPILE"] = run.compile
    if run.ranks:
        # Open MPI refuses to start as root without these two.
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        env[SESSION_FOLDER] = str(run.directory / "session")
        env.setdefault("OMP_NUM_THREADS", "1")
    return env


def execute(run: Run, arguments: argparse.Namespace) -> Outcome:
    """Run one ring once and read what it recorded."""
    shutil.rmtree(run.directory, ignore_errors=True)
    run.directory.mkdir(parents=True)
    limit = arguments.limit or RINGS[run.ring].limit
    log = run.directory / "run.log"
    status = run_limited(command(run, arguments), log, limit, environment(run))
    records = list(read_records(run.directory).values())
    outcome = judge(records, run.ranks or 1, status, limit)
    if not outcome.counts["passed"] + outcome.counts["failed"] and not arguments.keyword:
        outcome.fail("no test ran")
    return outcome


def judge(
    records: Sequence[dict[str, Record]], ranks: int, status: int | None, limit: float
) -> Outcome:
    """Count each test once: passed if it passed on every rank, failed if it failed on any.

    Where the job ended early, tests that some rank did not finish are not counted, except those
    that were running when a job without any failure hung or died: they are its failure.
    """
    outcome = Outcome()
    unfinished = []
    for test in dict.fromkeys(test for record in records for test in record):
        ends = [record.get(test, {"outcome": "absent"}) for record in records]
        states = {end["outcome"] for end in ends}
        clock, used = (max(float(end.get(key, 0)) for end in ends) for key in CLOCKS)
        outcome.tests.append((clock, used, test))
        if "failed" in states:
            outcome.fail(f"failed: {test}")
        elif "started" in states:
            unfinished.append(test)
        elif "absent" not in states and len(records) == ranks:
            outcome.counts["passed" if "passed" in states else "skipped"] += 1
    if status == 0 and not unfinished:
        return outcome
    if status is None:
        ending = f"hung: ended at its limit of {limit:.0f} processor seconds"
    else:
        ending = f"ended with status {status}"
    if unfinished and not outcome.problems:
        outcome.fail(f"{ending} while running {', '.join(unfinished)}")
    elif status is None or not outcome.problems:
        outcome.fail(ending)
    return outcome


def show_logs(run: Run) -> None:
    """Print the ends of the logs of a failed run, those of ranks with the rank before each line."""
    paths = [*sorted(run.directory.glob("rank*.log")), run.directory / "run.log"]
    records = read_records(run.directory)
    guilty = [path for path in paths if any(end["outcome"] == "failed"
                                            for end in records.get(path.stem, {}).values())]
    for path in guilty or paths:
        prefix = f"[{path.stem}] " if run.ranks else "  "
        print_tail(path.read_text(errors="replace").splitlines(), prefix)


def print_tail(lines: Sequence[str], prefix: str) -> None:
    """Print the last lines, each behind `prefix`, without pytest's own stack frames."""
    lines = [line for line in lines if not PYTEST_FRAME.search(line)]
    if len(lines) > TAIL_LINES:
        print(f"{prefix}... ({len(lines) - TAIL_LINES} lines before these)")
    for line in lines[-TAIL_LINES:]:
        print(prefix + line)


def report(run: Run, outcome: Outcome, seconds: float) -> None:
    """Print one line for the run, and what is known about its failures."""
    print(f"{run.title:40} {closing_line(outcome.counts):40} {seconds:7.1f} s", flush=True)
    if outcome.problems:
        show_logs(run)
        for problem in outcome.problems:
            print(f"{run.title}: {problem}")
        print(f"{run.title}: logs are in {run.directory.relative_to(ROOT)}", flush=True)


def run_all(runs: Iterable[Run], arguments: argparse.Namespace) -> Outcome:
    """Execute and report `runs`; the sum of their outcomes."""
    total = Outcome()
    shutil.rmtree(CHECKED, ignore_errors=True)
    for run in runs:
        start = time.monotonic()
        outcome = execute(run, arguments)
        report(run, outcome, time.monotonic() - start)
        total.counts += outcome.counts
        total.tests += [(*seconds, f"{test} ({run.title})") for *seconds, test in outcome.tests]
    return total


def show_slowest(tests: Iterable[tuple[float, float, str]]) -> None:
    """Print the tests that took longest, with what they used of the processor."""
    print(f"\nthe slowest {SLOWEST} tests\n  clock processor")
    for clock, used, test in sorted(tests, reverse=True)[:SLOWEST]:
        print(f"{clock:7.1f} {used:9.1f}  {test}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rings; 0 if everything passed."""
    arguments = parse_arguments(argv)
    os.chdir(ROOT)
    if slowness() > 1:
        print(f"this machine: {slowness():.1f} times as slow as the one of the limits", flush=True)
    total = run_all(plan(arguments), arguments)
    show_slowest(total.tests)
    if not total.counts["passed"] + total.counts["failed"]:
        print("no test ran")
        total.counts["failed"] += 1
    print(closing_line(total.counts))
    return 1 if total.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
