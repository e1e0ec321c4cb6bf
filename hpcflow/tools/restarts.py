"""Jobs that are started again: how a start ended, whether another one helps, and on what.

A rank is lost when a signal ended it, when its node is gone, or when it no longer answers. Then the
program is started again and goes on from its last checkpoint. What the program decides by itself
(an exception, an exit status) would only happen again.
"""

from __future__ import annotations

import enum
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hpcflow import config
from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.caught import ENDING

#: What the rank whose end was noticed first did, in the words of srun and of mpirun.
_OF_TASK = re.compile(r"tasks? [\d,\- ]+: (.+)")
_EXITED = re.compile(r"[Ee]xit(?:ed with)? (?:exit )?(?:code|status)|MPI_ABORT was invoked", re.I)
_SRUN_CODE = re.compile(r"Exited with exit code (\d+)")
#: Slurm's states of nodes on which nothing can be started; * is one that does not answer.
_GONE = re.compile(r"(down|drained|drng|draining|fail|failing|error|unknown|.*\*$)", re.I)


class How(enum.Enum):
    """The ways in which a start can end."""

    WELL = "all ranks ended well"
    PREEMPTED = "the job was preempted and has saved"
    FAILED = "the program failed by itself"
    LOST = "a rank is lost"
    ENDED = "the job was asked to end"


class Attempt(NamedTuple):
    """The facts of a start that is over.

    Attributes:
        status: the launcher's exit status.
        notes: what each rank has left: its host, and when it ended, its exit status.
        said: the launcher's log.
        told: the signals that came for the job.
        vanished: True if a rank was gone and the launcher did not notice.
    """

    status: int
    notes: Sequence[Mapping[str, Any]]
    said: str
    told: frozenset[int]
    vanished: bool = False

    def how(self) -> How:
        """Tell the ways apart; see the documentation of ``hpcflow run --restarts``."""
        first = self._first_status()
        codes = {n.get("code") for n in self.notes if n.get("ended")}
        if first == config.flags.preempted_status and first in codes:
            return How.PREEMPTED
        if self.told & {*ENDING, first - 128}:
            return How.ENDED
        failed = {n.get("code") for n in self.notes
                  if n.get("ended") and n.get("code") and not n.get("lost")}
        failed.discard(config.flags.preempted_status)
        if not failed and (self.vanished or not any(self.notes)):
            return How.LOST
        silent = any(not n.get("ended") for n in self.notes)
        knew = any(n.get("lost") for n in self.notes)
        if failed and (not silent or first in failed):
            return How.FAILED
        if knew or (silent and not self._left_without_note(first)):
            return How.LOST
        return How.FAILED if first or silent else How.WELL

    def _first_status(self) -> int:
        """The exit status of the rank that ended first: that of mpirun; srun's is the largest."""
        found = _OF_TASK.search(self.said)
        if found is None:
            return self.status
        code = _SRUN_CODE.search(found[1])
        return int(code[1]) if code else max(self.status, 129)

    def _left_without_note(self, first: int) -> bool:
        """True if the program ended a rank in a way that leaves no note, as by ``os._exit``."""
        return first < 128 and (first == 0 or _EXITED.search(self.said) is not None)

    def hosts(self) -> list[str]:
        """The node of each rank that has begun."""
        return [str(n["host"]) for n in self.notes if n.get("host")]


class RunningJob(Protocol):
    """A job that is started by `run`, and tells of it when it is over."""

    def run(self) -> int:
        """Run it to its end; returns the exit status."""

    def attempt(self) -> Attempt:
        """Return the facts of its end."""


class Place(NamedTuple):
    """The place of a start: its ranks, the servers among them, its number, the nodes to avoid (in
    terms of the ranks that each of the others takes), and the folder of its logs."""

    ranks: int
    servers: int
    number: int
    gone: frozenset[str]
    slots: Mapping[str, int]
    folder: Path


class Restarts:
    """Starts a job, and again while that helps.

    Args:
        start: makes the job of a place.
        ranks, servers: those of the first start.
        most: how often it may be started again.
        least: the fewest ranks.
        folder: of the logs; those of later starts are in folders of their own in it.
        launcher: the path of mpirun or srun.
    """

    def __init__(self, start: Callable[[Place], RunningJob], ranks: int, servers: int, most: int,
                 least: int, folder: Path, launcher: str) -> None:
        self._start = start
        self._ranks, self._servers = ranks, servers
        self._most, self._least = most, least
        self._folder, self._launcher = folder, launcher
        self._saved: set[str] = set()
        self._slots: dict[str, int] = {}  # ranks that each node had at most
        self._idle = 0  # starts in a row that have saved nothing new
        self._withdrawn = 0  # ranks that are left out because the same number did not work

    def run(self) -> int:
        """Run the job to its end; returns the status of the last start."""
        place = Place(self._ranks, self._servers, 0, frozenset(), {}, self._folder)
        while True:
            job = self._start(place)
            status = job.run()
            attempt = job.attempt()
            how = attempt.how()
            if status == 0 or place.number >= self._most:
                return status
            why_not = self._why_not(how, attempt, place)
            next_place = None if why_not else self._next(place, attempt)
            if next_place is None:
                if why_not is not None:
                    _say(f"{why_not}: not started again")
                return status
            _say(f"{how.value}; restart {next_place.number} of {self._most} on "
                 f"{next_place.ranks} ranks{_of_servers(next_place.servers)}")
            place = next_place

    def _why_not(self, how: How, attempt: Attempt, place: Place) -> str | None:
        if not attempt.hosts() and not place.number:
            return "no rank has begun"
        if how in (How.FAILED, How.WELL, How.ENDED):
            return how.value
        if how is How.PREEMPTED and (attempt.told or _scheduler_restarts()):
            return how.value
        self._idle = 0 if self._progress(place) else self._idle + 1
        if self._idle > tuning.RUN_IDLE_RESTARTS:
            return f"{self._idle} starts in a row have saved nothing new"
        return None

    def _progress(self, place: Place) -> bool:
        """True if a start has saved what none before it had."""
        try:
            paths = progress_file(place.folder).read_text().splitlines()
        except OSError:
            return False
        numbered = {p for p in paths if re.search(r"-\d+$", p)}
        new = bool(numbered - self._saved) or len(numbered) < len(set(paths))
        self._saved |= numbered
        return new

    def _next(self, place: Place, attempt: Attempt) -> Place | None:
        for host in set(attempt.hosts()):
            self._slots[host] = max(self._slots.get(host, 0), attempt.hosts().count(host))
        gone = gone_nodes(self._launcher, self._slots)
        if self._idle > 1:  # the same again did not help
            self._withdrawn += 1
        left = self._ranks - sum(self._slots[host] for host in gone)
        if left < self._least:
            _say(f"{max(left, 0)} ranks are left, fewer than --min-ranks {self._least}: "
                 "not started again")
            return None
        ranks = max(left - self._withdrawn, self._least)
        number = place.number + 1
        slots = {host: count for host, count in self._slots.items() if host not in gone}
        return Place(ranks, servers_of(ranks, self._servers, self._ranks), number, gone, slots,
                     self._folder / f"restart{number}")


def servers_of(ranks: int, servers: int, of_ranks: int) -> int:
    """The number of parameter servers among fewer ranks: the same part of them, at least one where
    there was one, and a worker besides."""
    if not servers:
        return 0
    return min(max(servers * ranks // of_ranks, 1), ranks - 1)


def progress_file(folder: Path) -> Path:
    """The file to which the savers of a start add what they have saved."""
    return folder / "saved.txt"


def gone_nodes(launcher: str, hosts: Iterable[str]) -> frozenset[str]:
    """The nodes that are not there any more: Slurm knows, elsewhere the launcher tries."""
    others = {host for host in hosts if host != socket.gethostname()}
    if Path(launcher).name == "srun":
        return _gone_in_slurm(others)
    return frozenset(host for host in others if not _answers(launcher, host))


def _gone_in_slurm(hosts: set[str]) -> frozenset[str]:
    sinfo = shutil.which("sinfo")
    if sinfo is None or not hosts:
        return frozenset()
    listed = _output([sinfo, "--noheader", "--Node", f"--nodes={','.join(sorted(hosts))}",
                      "--format=%N %T"])
    states = dict(line.split()[:2] for line in listed.splitlines() if len(line.split()) > 1)
    return frozenset(h for h in hosts
                     if _GONE.fullmatch(states.get(h.partition(".")[0], states.get(h, ""))))


def _answers(launcher: str, host: str) -> bool:
    try:
        return subprocess.run([launcher, "-n", "1", "--host", host, "true"],
                              capture_output=True, timeout=tuning.RUN_PROBE_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True,
                              timeout=tuning.RUN_PROBE_SECONDS).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def avoiding(launcher: str, place: Place) -> list[str]:
    """The launcher's options that keep a start away from the nodes that are gone."""
    if not place.gone:
        return []
    if Path(launcher).name == "srun":
        return [f"--exclude={','.join(sorted(place.gone))}"]
    return ["--host", ",".join(f"{host}:{n}" for host, n in sorted(place.slots.items()))]


def restart_count(number: int, environ: Mapping[str, str]) -> int:
    """The number of restarts that a program sees: those of the scheduler, and ours."""
    before = environ.get("HPCFLOW_RESTART_COUNT") or environ.get("SLURM_RESTART_COUNT") or "0"
    return number + (int(before) if before.isdigit() else 0)


def _scheduler_restarts() -> bool:
    """True if a preempted job goes on later: in another allocation, or when its file has gone."""
    return "SLURM_JOB_ID" in os.environ or os.path.exists(config.flags.preemption_file)


def _of_servers(servers: int) -> str:
    return f", {servers} of them servers" if servers else ""


def _say(text: str) -> None:
    print(f"hpcflow run: {text}", file=sys.stderr, flush=True)
