"""Jobs that lose ranks at random moments and go on with those that are left.

    python tests/faults/shrink.py                          # seeds 0 to 49
    python tests/faults/shrink.py --first 300 --seeds 20 --kinds servers

A seed says how many ranks there are, which one or two of them are lost, how and when: after a step,
and so long afterwards. With averaged gradients every value of every step must be that of a job
that loses nothing; with parameter servers the workers that are left must come to the last step, in
variables that are not older than the checkpoints. Needs an MPI with user-level failure mitigation
(ULFM). Prints a line per job, and what those said that are wrong; the status is 1 if any is.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from counted_job import averaged_model
from jobs import PACKAGE_PARENT
from processes import run_limited

from hpcflow.comm.launch import without_launcher

KINDS = ("averaged", "servers")
LIMIT_SECONDS = 90.0  # of processor time, of the whole job; a hang otherwise
STEPS = {"averaged": 40, "servers": 150}
LATEST_SECONDS = 0.3
HEALTH = {"HPCFLOW_HEALTH_SECONDS": "0.25", "HPCFLOW_HEALTH_TIMEOUT": "4",
          "HPCFLOW_FAULT_TOLERANCE": "shrink", "HPCFLOW_COLLECTIVE_TIMEOUT": "120"}
#: The step of a loss before all ranks have met.
BEFORE = -1
#: What the programs have in common: the end of a rank so long after a step.
PREAMBLE = f"""
import faulthandler, os, signal, sys, threading, time
import hpcflow as hf

BEFORE = {BEFORE}
""" + """
faulthandler.register(signal.SIGUSR1)
faulthandler.dump_traceback_later(90)  # where it is, if it hangs
steps = int(sys.argv[1])
# RANK:SIGNAL:STEP:SECONDS
losses = {int(r): (getattr(signal, s), int(n), float(t))
          for r, s, n, t in (a.split(":") for a in sys.argv[2:])}
me = hf.mpi.rank()

def die(number):
    os.write(1, b"lost now\\n")
    os.kill(os.getpid(), number)

def passed(step):
    if me in losses and step >= losses[me][1]:
        number, _, seconds = losses.pop(me)
        threading.Timer(seconds, die, (number,)).start()

if me in losses and losses[me][1] == BEFORE:
    die(losses[me][0])
"""
AVERAGED = PREAMBLE + averaged_model(60, 12, follows=True) + """
hooks = [hf.mpi.BroadcastVariablesHook(0), hf.train.StopAtStepHook(last_step=steps)]
passed(0)
with hf.train.MonitoredTrainingSession("", me == 0, "model", hooks=hooks,
                                       save_checkpoint_steps=5) as session:
    while not session.should_stop():
        n, value = session.run([train, total])
        os.write(1, b"step %d %r\\n" % (n, float(value)))
        passed(n)
        time.sleep(0.01)
print("ended", flush=True)
"""
#: A model on parameter servers: `train` adds one to every part.
SERVED_MODEL = """
with hf.device(hf.train.replica_device_setter(
        cluster=task.cluster, worker_device=f"/job:worker/task:{task.index}")):
    step = hf.train.get_or_create_global_step()
    parts = [hf.Variable(0.0, name=f"w{i}") for i in range(3)]
    with hf.control_dependencies([w.assign_add(1.0, use_locking=True) for w in parts]):
        train = hf.assign_add(step, 1, use_locking=True)
"""
SERVERS = PREAMBLE + """
task = hf.mpi.task()
server = hf.train.Server(task.cluster, task.job, task.index)
if task.job == "ps":
    def follow():
        while me in losses:
            passed(int((hf.train.latest_checkpoint("model") or "-0").rpartition("-")[2]))
            time.sleep(0.01)
    threading.Thread(target=follow, daemon=True).start()
    server.join()
    print("ended", flush=True)
    sys.exit()
""" + SERVED_MODEL + """
passed(0)
hooks = [hf.train.StopAtStepHook(last_step=steps)]
with hf.train.MonitoredTrainingSession(server.target, task.index == 0, "model",
                                       save_checkpoint_steps=10, hooks=hooks) as session:
    while not session.should_stop():
        n, values = session.run([train, parts])
        passed(n)
        time.sleep(0.01)
print("values", n, *values, flush=True)
print("ended", flush=True)
"""


@dataclass
class Case:
    """A job that loses ranks."""

    kind: str
    ranks: int
    servers: int
    losses: dict[int, str]  # rank -> the program's argument

    def __str__(self) -> str:
        return (f"{self.kind} on {self.ranks} ranks, {self.servers} servers, "
                f"{' '.join(self.losses.values())}")


@dataclass
class Result:
    """How a job ended; `wrong` is empty if that was right."""

    case: Case
    wrong: list[str] = field(default_factory=list)
    output: str = ""


def case_of(seed: int, kinds: list[str]) -> Case:
    """The job of a seed."""
    choose = random.Random(seed)
    kind = choose.choice(kinds)
    ranks = choose.randint(3, 5)
    servers = choose.randint(1, ranks - 2) if kind == "servers" else 0
    lost = choose.sample(range(ranks), choose.randint(1, 2))
    if set(lost) >= set(range(servers, ranks)):
        lost = lost[:1]
    at = choose.randrange(BEFORE, STEPS[kind] - 10)
    losses = {}
    for rank in lost:
        way = choose.choice(["SIGKILL", "SIGKILL", "SIGKILL", "SIGSTOP"])
        losses[rank] = f"{rank}:{way}:{at}:{choose.uniform(0, LATEST_SECONDS):.3f}"
        if choose.random() < 0.6:  # otherwise the next is lost at about the same time
            at = choose.randrange(STEPS[kind] - 10)
    return Case(kind, ranks, servers, losses)


def run_case(case: Case, folder: Path) -> Result:
    """Run the job of a case in a folder of its own."""
    (folder / "program.py").write_text(AVERAGED if case.kind == "averaged" else SERVERS)
    command = [sys.executable, "-m", "hpcflow", "run", "-n", str(case.ranks), "--follow", "none",
               "--ps", str(case.servers), "--launcher", "mpirun", "--logs", str(folder / "logs"),
               "-m", "program", str(STEPS[case.kind]), *case.losses.values()]
    paths = os.pathsep.join([str(folder), PACKAGE_PARENT])
    env = without_launcher(os.environ) | HEALTH | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    log = folder / "job.log"
    status = run_limited(["env", "-C", str(folder), *command], log, LIMIT_SECONDS, env)
    said = {rank: (folder / "logs" / f"rank{rank}.log").read_text(errors="replace")
            for rank in range(case.ranks) if (folder / "logs" / f"rank{rank}.log").exists()}
    result = Result(case)
    result.output = "\n".join([log.read_text(errors="replace"), *(
        f"--- rank {rank}\n{text[-6000:]}" for rank, text in said.items())])
    if status:
        result.wrong.append(f"status {status}")
    elif status is None:
        result.wrong.append("hung")
    check = averaged_faults if case.kind == "averaged" else server_faults
    for rank, text in said.items():
        if "lost now" not in text:
            result.wrong += [f"rank {rank}: {fault}" for fault in check(text)]
    return result


def totals() -> list[float]:
    """The value after each step of a job that loses nothing."""
    import hpcflow as hf

    with hf.Graph().as_default(), hf.Session() as session:
        data = hf.data.Dataset.range(60).shuffle(60, seed=3).repeat().batch(12)
        batch = data.make_one_shot_iterator().get_next()
        found, total = [], 0.0
        for _ in range(STEPS["averaged"]):
            total = 0.9 * total + float(sum(session.run(batch) + 1))
            found.append(total)
        return found


def averaged_faults(log: str) -> list[str]:
    """What is wrong in the steps of a rank that is left."""
    faults = [] if log.rstrip().endswith("ended") else ["has not ended"]
    expected = totals()
    for number, value in re.findall(r"^step (\d+) (\S+)$", log, re.MULTILINE):
        if abs(float(value) / expected[int(number) - 1] - 1) > 1e-12:
            faults.append(f"step {number}: {value}, not {expected[int(number) - 1]}")
    return faults


def server_faults(log: str) -> list[str]:
    """What is wrong with the end of a server or worker that is left."""
    faults = [] if log.rstrip().endswith("ended") else ["has not ended"]
    found = re.search(r"^values (.+)$", log, re.MULTILINE)
    if found:
        step, *values = map(float, found[1].split())
        # The parts of a checkpoint of asynchronous workers may be some steps apart.
        if min(values) < step - 50:
            faults.append(f"values {found[1]}")
    return faults


def main() -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=50, help="how many")
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    args = parser.parse_args()

    def run(seed: int) -> Result:
        with tempfile.TemporaryDirectory() as folder:
            result = run_case(case_of(seed, args.kinds), Path(folder))
        print(f"seed {seed}: {result.case}: {'; '.join(result.wrong) or 'ok'}", flush=True)
        if result.wrong:
            print(result.output, flush=True)
        return result

    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(run, range(args.first, args.first + args.seeds)))
    wrong = [r for r in results if r.wrong]
    print(f"{len(results) - len(wrong)} of {len(results)} went on as they should")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
