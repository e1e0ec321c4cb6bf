"""Jobs that lose ranks and go on with those that are left, without a new start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jobs
import pytest
from counted_job import INTERVAL, averaged, check_nothing_lost, check_total
from faults import shrink as stress
from speed import patience

from hpcflow.tools import run

SHRINK = {"HPCFLOW_FAULT_TOLERANCE": "shrink"}
SOON = {"HPCFLOW_HEALTH_SECONDS": "0.25", "HPCFLOW_HEALTH_TIMEOUT": "4"}
#: Each rank takes its part among those that are there.
FOLLOWING = averaged(follows=True)
SERVED = """
import os, signal, sys, threading, time
import hpcflow as hf

task = hf.mpi.task()
server = hf.train.Server(task.cluster, task.job, task.index)
dies = f"{task.job}{task.index}" == sys.argv[1]

def die_after(at):
    while int((hf.train.latest_checkpoint("model") or "-0").rpartition("-")[2]) < at:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

if dies:
    threading.Thread(target=die_after, args=(20,), daemon=True).start()
if task.job == "ps":
    server.join()
    print("ended", flush=True)
    sys.exit()
""" + stress.SERVED_MODEL + """
size = hf.mpi.size()
hook = hf.train.StopAtStepHook(last_step=10 ** 6)  # somebody is there to see the loss
with hf.train.MonitoredTrainingSession(server.target, task.index == 0, "model",
                                       save_checkpoint_steps=10, hooks=[hook]) as session:
    seen = after = 0
    while after < 20:
        seen, values = session.run([train, parts])
        after += hf.mpi.size() < size
        time.sleep(0.01)
        if after == 1:
            print("again", seen, "of", hf.mpi.size(), flush=True)
print("ended", seen, *(int(v) for v in values), flush=True)
"""
OWN_LOOP = """
import os, signal, sys, time
import hpcflow as hf

me = hf.mpi.rank()
total = hf.get_variable("total", [], hf.float64, initializer=hf.zeros_initializer())
train = total.assign_add(hf.mpi.allreduce(hf.constant(1.0, hf.float64)))
saver = hf.train.Saver()

def go_on():
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        done = 0
        if path := hf.train.latest_checkpoint("."):
            saver.restore(session, path)
            done = int(path.rpartition("-")[2])
        while done < 30:
            value = session.run(train)
            done += 1
            if done % 10 == 0 and hf.mpi.rank() == 0:
                saver.save(session, "./model", global_step=done)
            session.run(barrier)
            if done == 14 + 10 * me and me < 2:
                os.kill(os.getpid(), signal.SIGKILL)
        return value

barrier = hf.mpi.barrier()
while True:
    try:
        value = go_on()
        break
    except (hf.errors.UnavailableError, hf.errors.AbortedError):
        if not hf.mpi.recover():
            raise
print("ended with", value, hf.mpi.rank(), hf.mpi.size(), flush=True)
"""


@pytest.fixture(scope="module")
def tolerant():
    """Skip where MPI ends all ranks when one is lost."""
    mpirun, *options = jobs.launcher()
    asked = """if True:
        from mpi4py import MPI
        from hpcflow.comm import libmpi
        print(libmpi.mitigates_failures())"""
    env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    found = subprocess.run([mpirun, "--with-ft", "ulfm", *options, "1", sys.executable, "-c",
                            asked], env=env, capture_output=True, text=True, timeout=patience())
    if "True" not in found.stdout:
        pytest.skip(f"this MPI has no user-level failure mitigation (ULFM): {found.stderr}")


@pytest.fixture
def start(tmp_path, tolerant):
    root = str(Path(run.__file__).parents[2])

    def begin(program, ranks, *arguments, options=(), **variables):
        """(status, standard error, what each rank printed)."""
        (tmp_path / "program.py").write_text(program)
        command = [sys.executable, "-m", "hpcflow", "run", "-n", str(ranks), "--follow", "none",
                   "--launcher", "mpirun", "--logs", "logs", *options, "program.py",
                   *map(str, arguments)]
        ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": root} | SHRINK | variables,
                               capture_output=True, text=True, cwd=tmp_path, timeout=patience(200))
        logs = [p.read_text() for p in sorted((tmp_path / "logs").glob("rank*.log"))]
        return ended.returncode, ended.stderr + "\n".join(logs), logs

    return begin


def parts_of(log):
    """The steps of a rank before a loss, and those after it: their numbers begin again."""
    before, after, last = [], [], 0
    for line in re.findall(r"^step .+$", log, re.MULTILINE):
        number = int(line.split()[1])
        (after if after or number <= last else before).append(line)
        last = number
    return "\n".join(before), "\n".join(after)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("how", "who"), [("SIGKILL", 0), ("SIGKILL", 2), ("SIGSTOP", 1)])
def test_averaging_ranks_go_on_with_every_example(start, how, who):
    status, said, logs = start(FOLLOWING, 3, how, 13, 1, who, **SOON)
    assert status == 0, said
    assert "2 ranks ended well after" in said and f"without the lost rank {who}" in said
    left = [log for rank, log in enumerate(logs) if rank != who]
    assert all(log.rstrip().endswith("ended") for log in left), said
    before, after = zip(*map(parts_of, logs))
    assert not after[who]
    starts = [list(before), [log for log in after if log]]
    repeated, total = check_nothing_lost(starts)
    assert 0 < repeated <= INTERVAL, said
    check_total(starts, total)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("who", "servers"), [("worker1", 1), ("worker0", 1), ("ps0", 1),
                                              ("ps1", 2)])
def test_servers_and_workers_go_on_without_one(start, who, servers):
    status, said, logs = start(SERVED, servers + 2, who, options=("--ps", str(servers)), **SOON)
    assert status == 0, said
    lost = int(who[-1]) + (servers if who.startswith("worker") else 0)
    left = [log for rank, log in enumerate(logs) if rank != lost]
    assert all("ended" in log for log in left), said
    again = [int(n) for n in re.findall(rf"^again (\d+) of {servers + 1}$", said, re.MULTILINE)]
    assert again and min(again) > 10, said  # where the checkpoint was, not the beginning
    for log in left[servers - who.startswith("ps"):]:
        step, *values = map(int, re.search(r"^ended (\d+) (\d+) (\d+) (\d+)$", log,
                                           re.MULTILINE).groups())
        # The parts of a checkpoint of asynchronous workers may be some steps apart.
        assert all(value > step / 2 for value in values), said


@pytest.mark.timeout(200)
def test_a_loop_of_ones_own_loses_two_of_three_ranks(start):
    status, said, logs = start(OWN_LOOP, 3)
    assert status == 0, said
    assert "1 ranks ended well" in said and "without the lost ranks 0, 1" in said
    # 10 steps of three ranks, 10 of two, 10 of one.
    assert "ended with 60.0 0 1" in logs[2], said


@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", [
    stress.Case("averaged", 4, 0, {0: "0:SIGSTOP:4:0.3", 3: "3:SIGKILL:4:0.2"}),
    stress.Case("servers", 4, 1, {3: "3:SIGSTOP:77:0.0", 1: "1:SIGKILL:77:0.1"}),
    stress.Case("servers", 5, 2, {1: "1:SIGKILL:30:0.1", 2: "2:SIGKILL:80:0.0"}),
    stress.Case("averaged", 3, 0, {0: f"0:SIGKILL:{stress.BEFORE}:0"}),
    stress.Case("servers", 5, 2, {0: f"0:SIGKILL:{stress.BEFORE}:0", 2: "2:SIGKILL:80:0.0"}),
], ids=str)
def test_ranks_are_lost(tmp_path, tolerant, case):
    """Also one that is frozen while the others come together after the loss of the other, or before
    all have met."""
    result = stress.run_case(case, tmp_path)
    assert not result.wrong, f"{result.wrong}\n{result.output}"


@pytest.mark.timeout(300)
def test_a_rank_frozen_alone_on_its_node_ends_the_job(start):
    program = """
import socket
from hpcflow.comm.launch import launch
socket.gethostname = lambda: f"node{launch().rank}"
""" + FOLLOWING
    status, said, _ = start(program, 3, "SIGSTOP", 13, 1, 2, HPCFLOW_HEALTH_SECONDS="0.25",
                            HPCFLOW_HEALTH_TIMEOUT="10")
    assert status != 0, said
    assert "Rank 2 is lost: it has not answered for 10 s; but its process is still there" in said


def test_an_mpi_that_ends_all_ranks_says_so(tmp_path):
    ended = jobs.run_job(tmp_path, ["import hpcflow as hf\nhf.mpi.task()\n"], 2, **SHRINK)
    assert ended.status != 0
    assert "expected one with user-level failure mitigation" in ended.output, ended.output
