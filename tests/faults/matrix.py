"""The matrix of failures: ranks of every role fail in every phase of a job, in nine ways.

    python tests/faults/matrix.py                      # all 288 cases
    python tests/faults/matrix.py --sample 40 --jobs 2
    python tests/faults/matrix.py --ways SIGSTOP --phases saving closing --roles ps

Each job must end soon, not well, with a report that names the rank; no process may be left, and the
last checkpoint must be whole. Prints a line per case and a table; the status is 1 if any is wrong.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from jobs import run_ranks

WAYS = ("SIGKILL", "SIGTERM", "SIGSTOP", "sys.exit", "exception", "os._exit", "SIGSEGV",
        "MPI_Abort", "memory")
PHASES = ("start", "building", "first step", "collective", "send", "saving", "restoring",
          "closing")
ROLES = ("chief", "worker", "ps", "allreduce")
#: The rank that fails, and how many there are.
RANKS = {"ps": (0, 3), "chief": (1, 3), "worker": (2, 3), "allreduce": (1, 2)}
LIMIT_SECONDS = 40.0  # of processor time, of the whole job; a hang otherwise
HEALTH_TIMEOUT = 3
#: From the failure to the end of the job, on a machine that is not busy.
SOON_SECONDS = {"SIGSTOP": HEALTH_TIMEOUT + 4.0}
SOON_ELSE = 3.0
#: What has to be in the output; ``{r}`` is the rank. The launcher says some of it itself.
ENDED = r"rank {r} |Rank {r} is lost|,{r}\]"
REPORTS = {
    "SIGSTOP": r"Rank {r} is lost: it has not answered",
    "sys.exit": r"\[rank {r}\] exited with status 3; ending the job",
    "exception": r"\[rank {r}\] RuntimeError: deliberate failure",
    "MPI_Abort": r"MPI_ABORT was invoked on rank {r}|rank {r} ",
    "memory": r"\[rank {r}\] .*(MemoryError|ResourceExhausted|memory)|" + ENDED,
}


#: What fails otherwise than by the end of a rank: each call of a save, a full disk, signals every
#: few milliseconds, sessions closed under load, many threads, steps with little time.
TESTS = ("process_ring/storage/test_storage_failures.py", "job_ring/runtime/test_storms.py",
         "process_ring/runtime/test_closing.py", "process_ring/resources/test_timed_out_steps.py")


class Case(NamedTuple):
    """A role that fails in a phase, in a way."""

    way: str
    phase: str
    role: str

    def __str__(self) -> str:
        return f"{self.way:10} {self.phase:11} {self.role:10}"


@dataclass
class Result:
    """How the job of a case ended; `wrong` is empty if that was right."""

    case: Case
    seconds: float  # from the failure to the end
    reports: int  # ranks that said that they end the job
    wrong: list[str]
    output: str


def all_cases() -> list[Case]:
    """The whole matrix, in an order of which every beginning has some of everything."""
    ways, phases, roles = len(WAYS), len(PHASES), len(ROLES)
    pairs = ways * phases
    return [Case(WAYS[i % ways], PHASES[i % phases], ROLES[(i + i // phases + turn) % roles])
            for turn in range(roles) for i in range(pairs)]


def run_case(case: Case, folder: Path) -> Result:
    """Run the job of a case."""
    rank, ranks = RANKS[case.role]
    program = [Path(__file__).with_name("victim.py"), case.role, case.phase, case.way, folder]
    status, output = run_ranks(program, ranks, folder / "job.log", LIMIT_SECONDS,
                               OMP_NUM_THREADS="1", HPCFLOW_HEALTH_SECONDS="0.25",
                               HPCFLOW_HEALTH_TIMEOUT=str(HEALTH_TIMEOUT))
    end, failed = time.time(), folder / "failed"
    seconds = end - failed.stat().st_mtime if failed.exists() else float("nan")
    wrong = [] if failed.exists() else ["did not fail"]
    if case == Case("SIGTERM", "closing", "ps"):
        # A server that joins takes it for a notice, and the job has ended well by then.
        return Result(case, seconds, 0, [] if status == 0 else ["did not end well"], output)
    if not status:
        wrong.append("hung" if status is None else "ended well")
    if not re.search(REPORTS.get(case.way, ENDED).format(r=rank), output):
        wrong.append("no report")
    if left_over(folder):
        wrong.append("processes left")
    wrong += checkpoint_faults(case, folder)
    reports = len(re.findall(r"ending the job", output))
    return Result(case, seconds, reports, wrong, output)


def left_over(folder: Path) -> list[int]:
    """The processes whose command line has the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has ended meanwhile
            pass
    return found


def checkpoint_faults(case: Case, folder: Path) -> list[str]:
    """What is wrong with the last checkpoint; there is one from some phase on."""
    from hpcflow import storage
    from hpcflow.errors import OpError
    from hpcflow.train import latest_checkpoint

    latest = latest_checkpoint(str(folder))
    if latest is None:
        early = PHASES.index(case.phase) <= PHASES.index("first step")
        return [] if early or case.phase == "collective" else ["no checkpoint"]
    try:
        with storage.open_checkpoint(latest) as reader:
            for name in reader.names():
                reader.read(name)
    except OpError as error:
        return [f"checkpoint: {error}"]
    return []


def run_all(cases: Sequence[Case], jobs: int, folder: Path) -> list[Result]:
    """Run cases, some at a time, and print each as it ends."""

    def run(numbered: tuple[int, Case]) -> Result:
        number, case = numbered
        place = folder / f"case{number}"
        place.mkdir()
        result = run_case(case, place)
        slow = result.seconds > SOON_SECONDS.get(case.way, SOON_ELSE)
        print(f"{case} {result.seconds:6.1f} s{'!' if slow else ' '} {result.reports} reports  "
              f"{', '.join(result.wrong) or 'ok'}", flush=True)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, enumerate(cases)))


def table(results: Sequence[Result]) -> str:
    """Per way and phase: how many of the roles ended as they should."""
    lines = ["".join([f"{'':11}", *[f"{phase:>12}" for phase in PHASES]])]
    for way in WAYS:
        cells = []
        for phase in PHASES:
            those = [r for r in results if r.case.way == way and r.case.phase == phase]
            right = sum([not r.wrong for r in those])
            cells.append(f"{f'{right}/{len(those)}' if those else '-':>12}")
        lines.append("".join([f"{way:11}", *cells]))
    return "\n".join(lines)


def main() -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=PHASES)
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES)
    parser.add_argument("--sample", type=int, help="only so many cases, some of everything")
    parser.add_argument("--first", type=int, default=0, help="leave out those before this one")
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--tests", action="store_true", help="also run the tests of saves whose "
                        "calls fail, signals, sessions that close, threads and timeouts")
    args = parser.parse_args()
    cases = [c for c in all_cases()
             if c.way in args.ways and c.phase in args.phases and c.role in args.roles]
    with tempfile.TemporaryDirectory() as folder:
        results = run_all(cases[args.first:][:args.sample], args.jobs, Path(folder))
    wrong = [r for r in results if r.wrong]
    for result in wrong:
        print(f"\n{result.case}: {', '.join(result.wrong)}\n{result.output[-4000:]}")
    print(table(results))
    late = [r.seconds for r in results if not r.wrong]
    print(f"{len(results) - len(wrong)} of {len(results)} ended as they should, "
          f"after at most {max(late, default=0):.1f} s")
    if args.tests:
        folder = Path(__file__).resolve().parents[1]
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", *[folder / t for t in TESTS]],
                              check=False)
        return int(bool(wrong or done.returncode))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
