"""Jobs of the site's Slurm that are preempted or lose a rank, and go on: what do they lose?"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import environment
from cluster import SlurmCluster
from counted_job import AVERAGED, INTERVAL, STEPS, check_nothing_lost, check_total
from jobs import Job, JobResult
from nodes import Nodes
from speed import OtherWork, patience, slowness

BUILD = environment.ROOT / "build" / "site"
#: In which a job that gets a signal has saved and ended, on a machine that does nothing else.
PREEMPTION_SECONDS = 10.0
#: Longer than anything takes that goes on, also on a busy machine.
LIMIT_SECONDS = patience(300)
#: Of the training that is put into the queue again: too many to be done before the second signal.
REQUEUED_STEPS = 20_000

BATCH = """#!/bin/bash
cd "$1"
exec {python} -m hpcflow run --logs "$2" --restarts "$3" --min-ranks "${{LEAST:-$SLURM_NTASKS}}" \\
    --follow all program.py "${{@:4}}"
"""


class Counted:
    """A folder in which the job that counts its examples is run, by `hpcflow run` in a batch job.

    Attributes:
        starts: the logs of the ranks of each start so far.
    """

    def __init__(self, cluster: SlurmCluster, name: str) -> None:
        self.cluster = cluster
        self.folder = BUILD / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "program.py").write_text(AVERAGED)
        (self.folder / "job.sh").write_text(BATCH.format(python=environment.PYTHON))
        self.starts: list[list[str]] = []
        self.jobs = 0

    def submit(self, ranks: int, restarts: int, *arguments: object, options: Sequence[str] = (),
               **variables: str) -> Job:
        """Submit a job of some ranks; the words after the restarts are the program's."""
        self.jobs += 1
        words = map(str, [self.folder, f"logs{self.jobs}", restarts, *arguments])
        return Job(self.cluster, self.folder / "job.sh", self.folder / f"{self.jobs}.out",
                   list(words), [f"--ntasks={ranks}", *options], variables)

    def end(self, job: Job) -> JobResult:
        """Wait for the end of the last job, and take in its logs."""
        result = job.wait(LIMIT_SECONDS)
        logs = self.folder / f"logs{self.jobs}"
        for start in [logs, *sorted(logs.glob("restart*"))]:
            self.starts.append([p.read_text() for p in sorted(start.glob("rank*.log"))])
        return result


def check_preempted(cluster: SlurmCluster) -> str:
    """A signal by scancel: saved and ended in time; then one rank less, then more, equal values."""
    counted = Counted(cluster, "preempted")
    seconds = []
    for ranks, at in ((2, 7), (1, 13)):
        job = counted.submit(ranks, 0, "slow", at, 1, 0)
        assert job.wait_for_output(rf"step {at} ", LIMIT_SECONDS), job.text()
        with Stopwatch(ranks) as watch:
            cluster.command("scancel", "--signal=USR1", job.id)
            result = counted.end(job)
        seconds.append(watch.seconds)
        assert result.status == 75, result
    result = counted.end(counted.submit(3, 0, "slow", STEPS, 0, 0))
    assert result.state == "COMPLETED", result
    repeated, total = check_nothing_lost(counted.starts)
    check_total(counted.starts, total)
    assert repeated == 0 and max(seconds) <= PREEMPTION_SECONDS, (repeated, seconds)
    return (f"ended {max(seconds):.1f} s after the signal; 2, 1, 3 ranks: 0 steps repeated, 0 "
            "examples lost")


class Stopwatch(OtherWork):
    """How long the body takes on the machine of the limits if that does nothing else.

    Attributes:
        seconds: that time, after the body.
    """

    def __enter__(self) -> Stopwatch:
        self._begin = time.monotonic()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.seconds = (time.monotonic() - self._begin) / self.slowed / slowness()


def check_lost_rank(cluster: SlurmCluster) -> str:
    """A rank that is killed: the job goes on in its allocation."""
    return lost(cluster, "lost-rank", lambda job, folder: None, "SIGKILL", 13, 1, 1)


def check_lost_manager(cluster: SlurmCluster) -> str:
    """So it does when Slurm's manager of the step is killed."""

    def kill(job: Job, folder: Path) -> None:
        assert job.wait_for_output(r"step 13 ", LIMIT_SECONDS), job.text()
        wait_for(lambda: (folder / "model" / f"model.ckpt-{13 - 13 % INTERVAL}.h5").exists())
        for pid in managers(job.id):
            os.kill(pid, signal.SIGKILL)

    return lost(cluster, "lost-manager", kill, "slower", 13, 1, 0)


def check_lost_node(cluster: SlurmCluster) -> str:
    """One of three nodes dies: the job goes on in its allocation on the other two."""
    with Nodes(environment.SITE / "log" / "nodes", 3) as nodes:

        def kill(job: Job, folder: Path) -> None:
            assert job.wait_for_output(r"step 13 ", LIMIT_SECONDS), job.text()
            wait_for(lambda: (folder / "model" / f"model.ckpt-{13 - 13 % INTERVAL}.h5").exists())
            nodes.kill("node1")

        return lost(nodes, "lost-node", kill, "slower", 13, 1, 0, after=2,
                    options=("--nodes=3", "--no-kill"), HPCFLOW_HEALTH_TIMEOUT="30")


def lost(cluster: SlurmCluster, name: str, disturb: Callable[[Job, Path], None],
         *arguments: object, after: int = 3, options: Sequence[str] = (), **variables: str) -> str:
    """What a job on three ranks, `after` of them afterwards, that is disturbed once loses."""
    counted = Counted(cluster, name)
    job = counted.submit(3, 2, *arguments, options=options, LEAST=str(after), **variables)
    disturb(job, counted.folder)
    result = counted.end(job)
    assert result.state == "COMPLETED", result
    assert len(counted.starts) == 2 and f"restart 1 of 2 on {after} ranks" in result.output, result
    repeated, _ = check_nothing_lost(counted.starts)
    assert repeated <= INTERVAL, repeated
    return f"{repeated} of at most {INTERVAL} steps repeated, 0 examples lost"


def managers(job: str) -> list[int]:
    """The processes that manage the numbered steps of a job."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if re.match(rf"slurmstepd: \[{job}\.\d+\]", command):
                found.append(int(folder.name))
    assert found, f"no manager of a step of job {job}"
    return found


def wait_for(holds: Callable[[], bool], seconds: float = LIMIT_SECONDS) -> None:
    """Wait until something holds; AssertionError if it takes too long."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def submit(cluster: SlurmCluster, script: str, name: str, steps: int, *options: str) -> Job:
    """Submit a script of ``slurm/`` for some steps of training."""
    (BUILD / f"{name}.out").unlink(missing_ok=True)
    return Job(cluster, environment.ROOT / "slurm" / script, BUILD / f"{name}.out",
               ["--steps", str(steps)], [f"--chdir={environment.ROOT}", *options],
               {"VENV": str(environment.VENV), "LOGDIR": str(BUILD / name)})


def last_saved(name: str) -> int:
    """The step of the last checkpoint of a job."""
    return max(int(p.stem.rpartition("-")[2]) for p in (BUILD / name).glob("*.h5"))


def check_requeue(cluster: SlurmCluster) -> str:
    """Slurm's warning before the end: the job scripts save, are queued again, and go on, also on
    one rank less or more, to the end of what was asked for."""
    seconds = []
    for script, ranks in (("ps_train.sbatch", 3), ("allreduce_train.sbatch", 5)):
        name = f"requeue-{script.partition('_')[0]}"
        shutil.rmtree(BUILD / name, ignore_errors=True)
        job = submit(cluster, script, name, REQUEUED_STEPS)
        for start in (1, 2):
            assert job.wait_for_output(rf"start {start}, 4 ranks(?s:.*)step +\d+ ",
                                       LIMIT_SECONDS), job.text()
            with Stopwatch(4) as watch:
                job.signal("USR1")
                assert job.wait_for_output(rf"start {start}, (?s:.*)into the queue again",
                                           LIMIT_SECONDS), job.text()
            seconds.append(watch.seconds)
        cluster.command("scancel", job.id)
        job.wait(LIMIT_SECONDS)
        assert 0 < last_saved(name) < REQUEUED_STEPS, last_saved(name)
        result = submit(cluster, script, name, REQUEUED_STEPS,
                        f"--ntasks={ranks}").wait(LIMIT_SECONDS)
        assert result.state == "COMPLETED", result
        assert re.search(r"test accuracy: 0\.9", result.output), result.output
        # The steps of the first start and not more; asynchronous workers end within one each.
        assert 0 <= last_saved(name) - REQUEUED_STEPS < 10, last_saved(name)
    assert max(seconds) <= PREEMPTION_SECONDS, seconds
    return f"in the queue {max(seconds):.1f} s after the signal; goes on on 4, 3, 5 ranks"


def check_time_limit(cluster: SlurmCluster) -> str:
    """A job that comes to its time limit goes on in its next start; one that a person cancels, in
    the midst of it, does not."""
    shutil.rmtree(BUILD / "time-limit", ignore_errors=True)
    job = submit(cluster, "allreduce_train.sbatch", "time-limit", 10**6, "--time=3",
                 "--signal=B:USR1@60")
    wait_for(lambda: job.text().count("into the queue again") > 1 and "start 3" in job.text())
    saved = {int(p.stem.rpartition("-")[2]) for p in (BUILD / "time-limit").glob("*.h5")}
    assert len(saved) > 2, (saved, job.text())  # every start went on from what the last had saved
    cluster.command("scancel", job.id)
    result = job.wait(LIMIT_SECONDS)
    time.sleep(3.0)
    assert job.state()[0] == "CANCELLED", (job.state(), result)
    return f"queued again at the limit, at steps {sorted(saved)}; not when cancelled"


CHECKS: dict[str, Callable[[SlurmCluster], str]] = {
    "preempted": check_preempted,
    "lost-rank": check_lost_rank,
    "lost-manager": check_lost_manager,
    "lost-node": check_lost_node,
    "requeue": check_requeue,
    "time-limit": check_time_limit,
}
