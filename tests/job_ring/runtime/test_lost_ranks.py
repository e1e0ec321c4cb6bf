"""Ranks that vanish while the launcher lets the others live: these learn it, and name them."""

from __future__ import annotations

import os
import subprocess
import sys

import jobs
import pytest

from hpcflow.comm.processes import Process, is_running, this_process

PREAMBLE = """
    import contextlib, os, signal, sys, threading, time
    import numpy as np
    import hpcflow as hf
    from hpcflow.comm import abort
    task = hf.mpi.task(jobs={"ps": 1})
    server = hf.train.Server(task.cluster, task.job, task.index)
    who = task.job + ("" if task.job == "ps" else str(task.index))

    def vanish():
        os.kill(os.getpid(), signal.SIGKILL)

    def place(word):
        return os.path.join(os.path.dirname(__file__), word)

    def say(word):
        open(place(word), "w").close()

    def await_words(*words):
        while not all(os.path.exists(place(word)) for word in words):
            time.sleep(0.01)

    def once_said(*words, do):
        threading.Thread(target=lambda: (await_words(*words), do()), daemon=True).start()

    def lost(call):
        start = time.monotonic()
        try:
            while True:
                call()
        except (hf.errors.UnavailableError, hf.errors.AbortedError) as e:
            line = str(e).splitlines()[0]
            print(f"[rank {task.rank}] {type(e).__name__}: {line}", flush=True)
        print(f"[rank {task.rank}] after {time.monotonic() - start:.1f} s", flush=True)
"""

#: Every rank takes itself to be alone on a node: nothing is known of the processes of the others.
APART = """
    import socket
    from hpcflow.comm.launch import launch
    socket.gethostname = lambda: f"node{launch().rank}"
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Run a program on three ranks under a launcher that does not mind a lost one."""
    mpirun, *options = jobs.launcher()
    if "--oversubscribe" not in options:
        pytest.skip("no launcher that outlives a rank")
    monkeypatch.setattr(jobs, "launcher", lambda: [mpirun, "--enable-recovery", *options])

    def run(program, apart=False, **variables):
        return jobs.run_job(tmp_path, [APART * apart, PREAMBLE, program], 3, **variables)

    return run


def check(ended, rank, witnesses):
    """The job failed, and every witness had an error that names the rank, before the time limit of
    the job: how soon depends on what else the machine does."""
    assert ended.status != 0, ended.output
    for witness in witnesses:
        lines = ended.lines_of(witness)
        assert any(f"Rank {rank} is lost" in line for line in lines), ended.output
        assert any(line.startswith("after") for line in lines), ended.output


def test_a_parameter_server_is_lost(job):
    ended = job("""
    if who == "ps":
        once_said("worker0", "worker1", do=vanish)
        server.join()
        sys.exit()
    with hf.device("/job:ps/task:0"):
        v = hf.Variable(np.zeros(1000, np.float32), name="v")
        add = hf.assign_add(v, hf.ones([1000])).op
        queue = hf.FIFOQueue(1, hf.float32, shared_name="q")
        waits = queue.dequeue()
    with hf.Session(server.target) as session:
        if task.index == 0:
            session.run(v.initializer)
            session.run(add)
            say(who)
            lost(lambda: session.run(add))
        else:
            say(who)
            lost(lambda: session.run(waits))
        lost(lambda: session.run(waits))       # a step that begins later fails at once
    """)
    check(ended, 0, (1, 2))


def test_a_worker_is_lost_while_the_server_is_idle(job):
    ended = job("""
    if who == "ps":
        server.join()
    if who == "worker0":
        vanish()
    time.sleep(60)
    """)
    assert ended.status != 0 and "Rank 1 is lost: its process" in ended.output, ended.output


def test_a_worker_is_lost_in_a_collective_operation(job):
    ended = job("""
    total = hf.mpi.allreduce(hf.ones([1000]))
    session = hf.Session()
    session.run(total)
    if task.rank == 2:
        await_words("0", "1")
        time.sleep(1.0)  # most likely they are in the operation then
        vanish()
    say(str(task.rank))
    lost(lambda: session.run(total))
    """)
    check(ended, 2, (0, 1))


def test_a_monitored_session_loses_a_rank_in_a_collective_operation(job):
    """It makes no new session, which could not do more than say that one is lost."""
    ended = job("""
    step = hf.train.get_or_create_global_step()
    weights = hf.get_variable("w", [1000], initializer=hf.zeros_initializer())
    optimizer = hf.mpi.DistributedOptimizer(hf.train.GradientDescentOptimizer(0.1))
    train = optimizer.minimize(hf.reduce_sum(weights * weights), step)
    with hf.train.MonitoredTrainingSession(hooks=[hf.mpi.BroadcastVariablesHook(0)]) as session:
        session.run(train)
        if task.rank == 2:
            await_words("0", "1")
            time.sleep(1.0)
            vanish()
        say(str(task.rank))
        lost(lambda: session.run(train))
    """)
    check(ended, 2, (0, 1))
    assert "A new session" not in ended.output, ended.output


def test_a_master_is_lost_with_a_step_under_way(job):
    """Its part on the server ends; the other worker notices too, and its own steps go on."""
    ended = job("""
    if who == "ps":
        server.join()
        sys.exit()
    with hf.device("/job:ps/task:0"):
        v = hf.Variable(1.0, name="v")
        waits = hf.FIFOQueue(1, hf.float32, shared_name="q").dequeue()
    session = hf.Session(server.target)
    if who == "worker0":
        session.run(v.initializer)
        threading.Timer(2.0, vanish).start()
        session.run(waits)
    start = time.monotonic()
    while time.monotonic() - start < 10:
        try:
            session.run(v)
        except hf.errors.FailedPreconditionError:
            pass
        time.sleep(0.01)
    """)
    assert ended.status != 0 and "Rank 1 is lost: its process" in ended.output, ended.output


def test_a_long_computation_is_not_taken_for_a_lost_rank(job):
    ended = job("""
    if who == "worker0":
        time.sleep(2.0)
    print(f"[rank {task.rank}] fine", flush=True)
    """, HPCFLOW_HEALTH_SECONDS="0.25")
    assert ended.status == 0, ended.output


FROZEN = """
    def freeze():
        print(f"[rank {task.rank}] frozen", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
"""
SOON = {"HPCFLOW_HEALTH_SECONDS": "0.25", "HPCFLOW_HEALTH_TIMEOUT": "3"}


def check_frozen(ended, rank, witnesses, waited):
    """The others learn of a frozen rank in time, and say what they waited for."""
    check(ended, rank, witnesses)
    assert f"Rank {rank} is lost: it has not answered for 3 s, its process" in ended.output
    assert "is stopped. Waited for:" in ended.output and waited in ended.output, ended.output


def test_a_server_is_frozen(job):
    ended = job(FROZEN + """
    if who == "ps":
        once_said("worker0", "worker1", do=freeze)
        server.join()
        sys.exit()
    with hf.device("/job:ps/task:0"):
        v = hf.Variable(np.zeros(1000, np.float32), name="v")
        add = hf.assign_add(v, hf.ones([1000])).op
        waits = hf.FIFOQueue(1, hf.float32, shared_name="q").dequeue()
    with hf.Session(server.target) as session:
        if task.index == 0:
            session.run(v.initializer)
            session.run(add)
            say(who)
            lost(lambda: session.run(add))
        else:
            say(who)
            lost(lambda: session.run(waits + 1.0))
    """, **SOON)
    check_frozen(ended, 0, (1, 2), "the part of /job:ps/replica:0/task:0 (rank 0) to be done")


def test_a_worker_is_frozen_in_a_collective_operation(job):
    ended = job(FROZEN + """
    total = hf.mpi.allreduce(hf.ones([1000]))
    session = hf.Session()
    session.run(total)
    if task.rank == 2:
        freeze()
    lost(lambda: session.run(total))
    """, **SOON)
    check_frozen(ended, 2, (0, 1), "ranks 2")
    assert "Waited for: collective operation" in ended.output, ended.output


@pytest.mark.parametrize("who", [0, 2])
def test_a_rank_is_frozen_alone_on_its_node(job, who):
    """Those on other nodes, which cannot look at its process, miss its answer."""
    ended = job(FROZEN + f"""
    total = hf.mpi.allreduce(hf.ones([1000]))
    session = hf.Session()
    session.run(total)
    if task.rank == {who}:
        freeze()
    lost(lambda: session.run(total))
    """, apart=True, HPCFLOW_HEALTH_SECONDS="0.25", HPCFLOW_HEALTH_TIMEOUT="10")
    check(ended, who, {0, 1, 2} - {who})
    assert f"Rank {who} is lost: it has not answered for 10 s. Waited for:" in ended.output


def test_a_worker_is_frozen_while_the_others_wait_for_its_end(job):
    ended = job(FROZEN + """
    if who == "worker0":
        freeze()
    server.join()
    """, **SOON)
    assert ended.status != 0 and "Rank 1 is lost: it has not answered" in ended.output
    assert "the end of all ranks' programs" in ended.output, ended.output


def test_two_neighbours_are_frozen(job):
    """They are found one after the other, but not waited for so."""
    ended = job(FROZEN + """
    with hf.device("/job:worker/task:0"):
        first = hf.constant(1.0) + 1.0
    with hf.device("/job:worker/task:1"):
        second = hf.constant(1.0) + 1.0
    session = hf.Session(server.target, config=hf.ConfigProto(
        graph_options=hf.GraphOptions(optimizer_options=hf.OptimizerOptions(opt_level=-1))))
    with hf.device("/job:ps/task:0"):
        begun = [hf.Variable(0.0, name=f"begun{i}") for i in range(2)]
    if who != "ps":
        session.run(begun[task.index].initializer)
        freeze()
    while session.run(hf.report_uninitialized_variables(begun)).size:
        time.sleep(0.05)
    lost(lambda: session.run(first))
    lost(lambda: session.run(second))
    """, HPCFLOW_HEALTH_SECONDS="0.25", HPCFLOW_HEALTH_TIMEOUT="8")
    check(ended, 1, (0,))
    check(ended, 2, (0,))
    _, second = [float(line.split()[1]) for line in ended.lines_of(0) if line.startswith("after")]
    assert second < 8, ended.output


def test_a_kernel_that_keeps_the_interpreter_is_not_taken_for_a_lost_rank(job):
    ended = job("""
    import ctypes
    if who == "worker0":
        text = ctypes.create_string_buffer(b"a" * (1 << 22))
        keeps = ctypes.PyDLL(None).strlen  # without letting the interpreter go
        keeps.argtypes, keeps.restype = [ctypes.c_void_p], ctypes.c_size_t
        sys.setswitchinterval(30.0)  # the other threads do not get it for so long
        start = time.monotonic()
        while time.monotonic() - start < 6:
            keeps(ctypes.addressof(text))
        sys.setswitchinterval(0.005)
    print(f"[rank {task.rank}] fine", flush=True)
    """, **SOON)
    assert ended.status == 0 and ended.output.count("fine") == 3, ended.output


def test_processes():
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"],
                             stdin=subprocess.PIPE)
    me = this_process()
    assert is_running(me) and me.pid == os.getpid()
    assert not is_running(me._replace(started=me.started + 1))  # the id is another one's now
    with open(f"/proc/{child.pid}/stat") as file:
        started = int(file.read().rpartition(")")[2].split()[19])
    process = Process(child.pid, started, me.namespace)
    assert is_running(process)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # now it is a zombie
    assert not is_running(process)
    child.communicate()
    assert not is_running(process)


def test_a_rank_is_lost_in_what_the_program_does_at_its_end(tmp_path, job, monkeypatch):
    """The functions that it has registered before the ranks met, too."""
    monkeypatch.setitem(globals(), "PREAMBLE", f"""
    import atexit
    import hpcflow as hf
    atexit.register(lambda: task.rank == 1 and vanish())
    {PREAMBLE}""")
    ended = job("""
    session = hf.Session()
    session.run(hf.mpi.allreduce(hf.ones([10])))
    """)
    assert ended.status != 0 and "Rank 1 is lost: its process" in ended.output, ended.output


@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("form", ["Supervisor", "MonitoredTrainingSession"])
def test_a_worker_does_not_go_on_without_its_chief(job, form, first):
    """Nobody would save what it learns, although the servers are still there."""
    ended = job(f"""
    form, first = {form!r}, {first}
    """ + """
    if who == "ps":
        with contextlib.suppress(hf.errors.UnavailableError):
            server.join()
        time.sleep(600)
    with hf.device(hf.train.replica_device_setter(cluster=task.cluster)):
        step = hf.train.get_or_create_global_step()
        train = hf.assign_add(step, 1)
        followed = hf.Variable(False, name="followed", trainable=False)
        follow = hf.assign(followed, True)
    if form == "Supervisor":
        supervisor = hf.train.Supervisor(is_chief=task.index == 0, recovery_wait_secs=1)
        managed = supervisor.managed_session(server.target)
    else:
        managed = hf.train.MonitoredTrainingSession(server.target, task.index == 0)
    with managed as session:
        if task.index == 0:
            while not (session.run(followed) or os.path.exists(place("made"))):
                session.run(train)
            vanish()
        if first:
            say("made")
            while not abort.lost:
                time.sleep(0.01)
        while True:
            session.run([train, follow])
    """)
    assert ended.status != 0, ended.output
    assert "nobody else saves what this worker learns" in ended.output, ended.output
