"""The site ring: hpcflow on a cluster's own parts, all on this machine.

Installs Debian's Slurm, Open MPI and parallel HDF5 (as root), builds an environment with a
parallel h5py in ``.site``, starts a one-node Slurm of its own (for one check of three nodes), and
checks there: the batch scripts of ``slurm/``, the MPI tests, jobs that lose ranks or a node, and
that checkpoints written in one way are restored in the other. Ends what it started; the last line
is ``N passed, N failed``.

Usage: ``python tests/site/run.py [--only NAME]...`` with any Python 3.10 or newer.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import environment
from cluster import SlurmCluster
from jobs import Job, JobResult

ROOT = environment.ROOT
sys.path.append(str(ROOT / "tests"))

import restarts  # noqa: E402
from processes import run_limited  # noqa: E402
from speed import patience  # noqa: E402

BUILD = ROOT / "build" / "site"
WHEEL_VENV = ROOT / ".venv"
ACCURACY = 0.95
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
SRUN = "srun --mpi=pmix --kill-on-bad-exit=1 --ntasks={n}"
MPIRUN = "/usr/bin/mpirun --oversubscribe --bind-to none -n {n}"


class CheckFailed(Exception):
    """A check did not find what it expected; the text says what it found."""


@dataclass
class Site:
    """What the checks share: the cluster, and the sum of what was counted."""

    cluster: SlurmCluster
    counts: Counter[str] = field(default_factory=Counter)


def run_on_site(site: Site, command: Sequence[str], limit: float, **variables: str) -> str:
    """Run a command with the cluster's environment; its output.

    Raises CheckFailed with the end of the output if it fails or exceeds `limit` seconds.
    """
    env = dict(site.cluster.environment, OMP_NUM_THREADS="1", **variables)
    env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    log = BUILD / "command.log"
    status = run_limited(command, log, limit, env)
    output = log.read_text(errors="replace")
    if status != 0:
        ending = f"hung for {limit:.0f} s" if status is None else f"status {status}"
        raise CheckFailed(f"{shlex.join(command)}: {ending}\n{tail(output)}")
    return output


def tail(text: str, lines: int = 60) -> str:
    """The last lines of `text`."""
    return "\n".join(text.splitlines()[-lines:])


def _checked(check: Callable[[SlurmCluster], str], site: Site) -> str:
    """Run a check that only needs the cluster; its assertions are what it expects."""
    try:
        return check(site.cluster)
    except AssertionError as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise CheckFailed(f"{where.filename}:{where.lineno}: {where.line}\n{error}") from error


def expect_completed(result: JobResult) -> None:
    """Raises CheckFailed unless the job completed with status 0."""
    if (result.state, result.status) != ("COMPLETED", 0):
        raise CheckFailed(f"job: {result.state}, status {result.status}\n{tail(result.output)}")


def submit(site: Site, script: str, name: str, *arguments: str) -> Job:
    """Submit a script of ``slurm/`` as it stands, with the site's environment."""
    return Job(
        site.cluster,
        ROOT / "slurm" / script,
        BUILD / f"{name}.out",
        arguments,
        options=[f"--chdir={ROOT}"],
        variables={
            "VENV": str(environment.VENV),
            "LOGDIR": str(BUILD / name),
        },
    )


def check_parts(site: Site) -> str:
    """Under srun, PMIx makes one world of the ranks, and HDF5 writes one file by MPI-IO."""
    start = shlex.split(SRUN.format(n=4))
    probe = [str(environment.PYTHON), "tests/site/probe.py", str(BUILD / "probe.h5")]
    output = run_on_site(site, [*start, *probe], 60).strip()
    if not output.startswith("4 ranks, Open MPI"):
        raise CheckFailed(f"expected a world of 4 ranks of Open MPI, got {output!r}")
    return output


def check_training(site: Site) -> str:
    """``slurm/ps_train.sbatch`` trains the digits to the accuracy asked for.

    After the steps that are its default the accuracy is by chance sometimes near that, as the order
    of asynchronous updates is another in each run; after these it is not.
    """
    return trained(site, "ps_train.sbatch", "digits", "--steps", "12000")


def check_allreduce(site: Site) -> str:
    """So does ``slurm/allreduce_train.sbatch``."""
    return trained(site, "allreduce_train.sbatch", "digits-allreduce")


def trained(site: Site, script: str, name: str, *arguments: str) -> str:
    """What a job script that trains the digits prints last."""
    result = submit(site, script, name, *arguments).wait(patience(300))
    expect_completed(result)
    found = re.search(r"^test accuracy: (0\.\d+|1\.0+)\s*$", result.output, re.MULTILINE)
    if not found or float(found[1]) < ACCURACY:
        raise CheckFailed(f"no test accuracy of {ACCURACY} or better\n{tail(result.output)}")
    return found[0].strip()


def check_failing_rank(site: Site) -> str:
    """A worker that raises ends the job of all ranks, with its message and a bad status."""
    start = shlex.split(SRUN.format(n=4))
    try:
        run_on_site(site, [*start, str(environment.PYTHON), "tests/site/failing_rank.py"], 60)
    except CheckFailed as failure:
        if "status" in str(failure) and "this worker fails on purpose" in str(failure):
            return "the job ended with its message"
        raise
    raise CheckFailed("expected a job that fails, but its status was 0")


def check_benchmarks(site: Site) -> str:
    """``slurm/bench.sbatch`` prints a table for every benchmark it names."""
    result = submit(site, "bench.sbatch", "bench", "--quick").wait(patience(300))
    expect_completed(result)
    rows = [line for line in result.output.splitlines() if re.search(r"\s\d+(\.\d+)?\s", line)]
    if len(rows) < 3:
        raise CheckFailed(f"expected tables of figures\n{tail(result.output)}")
    return f"{len(rows)} rows of figures"


def mpi_tests(site: Site, launcher: str, ranks: str) -> str:
    """The MPI ring with the site's parts; its tests are counted one by one."""
    command = [str(environment.PYTHON), "tests/run.py", "--ring", "mpi", "--ranks", ranks]
    try:
        output = run_on_site(site, [*command, "--launcher", launcher], 900)
    except CheckFailed as error:
        count_tests(site, str(error))
        raise
    return count_tests(site, output)


def count_tests(site: Site, output: str) -> str:
    """Add the counts of a closing line at the end of `output`; the line."""
    line = output.strip().splitlines()[-1]
    if found := CLOSING.match(line):
        for name, number in zip(("passed", "failed", "skipped"), found.groups("0"), strict=True):
            site.counts[name] += int(number)
    return line


def check_mpi_tests(site: Site) -> str:
    """The MPI tests pass under the machine's mpirun."""
    return mpi_tests(site, MPIRUN, "1,2,4")


def check_mpi_tests_in_slurm(site: Site) -> str:
    """The MPI tests pass under srun."""
    return mpi_tests(site, SRUN, "4")


def check_checkpoints(site: Site) -> str:
    """The site's world and another write files that each other restore."""
    wheel = WHEEL_VENV / "bin" / "python"
    program = "tests/site/check_checkpoints.py"
    places = {"site": (environment.PYTHON, MPIRUN)}
    if (WHEEL_VENV / "bin" / "mpirun").exists():
        places["wheel"] = (wheel, MPIRUN.replace("/usr/bin", str(WHEEL_VENV / "bin")))

    def run(action: str, place: str, ranks: int, name: str) -> None:
        python, launcher = places[place]
        command = [*shlex.split(launcher.format(n=ranks)), str(python), program]
        prefix = str(BUILD / "checkpoints" / name)
        run_on_site(site, [*command, action, prefix], 120)

    for place in places:
        run("save", place, 4, place)
    for written, place, ranks in itertools.product(places, places, (4, 3)):
        run("restore", place, ranks, written)
    return f"{len(places)} files, each restored by {2 * len(places)} jobs"


CHECKS: dict[str, Callable[[Site], str]] = {
    "parts": check_parts,
    "training": check_training,
    "allreduce": check_allreduce,
    "failing-rank": check_failing_rank,
    **{name: partial(_checked, check) for name, check in restarts.CHECKS.items()},
    "benchmarks": check_benchmarks,
    "mpi-tests": check_mpi_tests,
    "mpi-tests-slurm": check_mpi_tests_in_slurm,
    "checkpoints": check_checkpoints,
}


def run_check(title: str, check: Callable[[], str]) -> bool:
    """Run one step, print what it says, and how long it took; whether it succeeded."""
    print(f"{title:24} ", end="", flush=True)
    start = time.monotonic()
    try:
        verdict, fact = "ok", check()
    except (CheckFailed, RuntimeError, OSError, subprocess.SubprocessError) as error:
        verdict, fact = "FAILED", str(error)
    print(f"{verdict:8} {time.monotonic() - start:6.1f} s  {fact}", flush=True)
    return verdict == "ok"


def run_checks(names: Sequence[str]) -> Counter[str]:
    """Prepare the site, run the named checks on it; counts of passes and failures."""
    BUILD.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for title, prepare in {
        "packages": environment.install_packages,
        "environment": environment.build_environment,
    }.items():
        if not run_check(title, prepare):
            return Counter(failed=1)
        counts["passed"] += 1
    try:
        with SlurmCluster(environment.SITE / "log" / "slurm") as cluster:
            site = Site(cluster)
            for name in names:
                ok = run_check(name, lambda name=name: CHECKS[name](site))
                counts["passed" if ok else "failed"] += 1
            return counts + site.counts
    except RuntimeError as error:
        print(f"{error} (logs in {environment.SITE / 'log' / 'slurm'})")
        return counts + Counter(failed=1)


def main() -> int:
    """Run the ring; 0 if everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(CHECKS), help="only this check")
    names = parser.parse_args().only or list(CHECKS)
    # Ended from outside, the cluster must be stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chdir(ROOT)
    counts = run_checks(names)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
