"""Whole MPI jobs as a user starts them: how they end, and what is left when they fail."""

from __future__ import annotations

import pytest
from jobs import run_job

PRELUDE = """
import os, signal, sys, time
import numpy as np
import hpcflow as hf
task = hf.mpi.task(jobs={"ps": 1})
server = hf.train.Server(task.cluster, task.job, task.index)
"""


@pytest.fixture
def job(tmp_path):
    """Run a program on some ranks; its status and output. It must end before the time limit."""

    def run(body, ranks=3, prelude=PRELUDE):
        ended = run_job(tmp_path, [prelude, body], ranks)
        return ended.status, ended.output

    return run


TRAIN = """
if task.job == "ps":
    server.join()
    print("ps left", flush=True)
    sys.exit()
with hf.device("/job:ps/task:0"):
    v = hf.Variable(0.0, name="v")
    add = hf.assign_add(v, 1.0)
session = hf.Session(server.target)
if task.index == 0:
    session.run(v.initializer)
"""


def test_a_job_ends_with_status_0_when_the_workers_are_done(job):
    status, output = job(TRAIN + """
print("worker", task.index, "left", flush=True)
""")
    assert status == 0, output
    assert output.count("worker") == 2 and "ps left" in output


def test_workers_that_join_end_too(job):
    status, output = job("""
server.join()
print("left", flush=True)
""")
    assert status == 0, output
    assert output.count("left") == 3


HOSTS = """
import os
import hpcflow as hf
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
cluster = hf.train.ClusterSpec({"ps": ["host0:2222"], "worker": ["host1:2222", "host2:2222"]})
job, index = ("ps", 0) if rank == 0 else ("worker", rank - 1)
server = hf.train.Server(cluster, job_name=job, task_index=index)
"""


def test_a_program_with_host_names_ends_at_join(job):
    """As programs of 1.x have it, what follows is for the workers, and there is no return."""
    status, output = job("""
try:
    if job == "ps":
        server.join()
    print("working as", rank, flush=True)
    with hf.device("/job:ps/task:0"):
        x = hf.constant(3.0) * 2.0
    with hf.Session(server.target) as session:
        assert session.run(x) == 6.0
finally:
    print("leaving", rank, flush=True)
""", prelude=HOSTS)
    assert status == 0, output
    assert sorted(line for line in output.splitlines() if "ing" in line) == [
        "leaving 0", "leaving 1", "leaving 2", "working as 1", "working as 2"]


@pytest.mark.parametrize("who", ["ps", "worker0", "worker1"])
def test_a_rank_that_raises_ends_the_job(job, who):
    body = f"""
who = task.job + ("" if task.job == "ps" else str(task.index))
if who == {who!r}:
    time.sleep(0.5)
    raise RuntimeError("deliberate failure of " + who)
""" + TRAIN + """
while True:
    time.sleep(0.05)
"""
    status, output = job(body)
    assert status != 0, output
    assert f"deliberate failure of {who}" in output


def test_a_failing_step_ends_the_job_with_its_message(job):
    status, output = job(TRAIN + """
with hf.device("/job:ps/task:0"):
    bad = hf.check_numerics(hf.log(hf.placeholder_with_default(-1.0, [])), "deliberate", name="bad")
if task.index == 1:
    session.run(bad)
time.sleep(1000)
""")
    assert status != 0
    assert "bad" in output and "/job:ps" in output and "deliberate" in output


@pytest.mark.parametrize("who", ["ps", "worker1"])
def test_a_killed_rank_ends_the_job(job, who):
    body = f"""
who = task.job + ("" if task.job == "ps" else str(task.index))
if who == {who!r}:
    import threading
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
""" + TRAIN + """
while True:
    try:
        session.run(add.op)
    except hf.errors.FailedPreconditionError:
        time.sleep(0.01)
"""
    status, output = job(body)
    assert status != 0, output


def test_sys_exit_with_a_status_ends_the_job(job):
    status, output = job(TRAIN + """
if task.index == 0:
    sys.exit(7)
time.sleep(1000)
""")
    assert status == 7, output


def test_too_many_parameter_servers(job):
    status, output = job("", ranks=2, prelude=PRELUDE.replace('{"ps": 1}', '{"ps": 2}'))
    assert status != 0
    assert "only 2 ranks run" in output


def test_one_rank_is_the_only_worker(job):
    status, output = job("print(task.job, task.index)", ranks=1)
    assert status == 0, output
    assert "worker 0" in output


def test_a_cluster_larger_than_the_world(job):
    status, output = job("", ranks=2, prelude="""
import hpcflow as hf
from mpi4py import MPI
cluster = hf.train.ClusterSpec({"worker": ["a:1", "b:1", "c:1"]})
hf.train.Server(cluster, "worker", MPI.COMM_WORLD.rank)
""")
    assert status != 0
    assert "The cluster has 3 tasks, but only 2 ranks run" in output


def test_every_rank_may_catch_what_is_wrong_with_the_cluster(job):
    status, output = job("", ranks=2, prelude="""
import hpcflow as hf
try:
    hf.mpi.task(jobs={"ps": 5})
except hf.errors.InvalidArgumentError as e:
    print(f"caught: {e}", flush=True)
""")
    assert status == 0 and "Traceback" not in output, output
    assert output.count("caught: The jobs ask for 5 ranks") == 2
    status, output = job("", ranks=2, prelude="""
import hpcflow as hf
try:
    hf.train.Server({"ps": ["mpi://0"], "worker": ["mpi://7"]}, *(
        ("worker", 0) if hf.mpi.rank() else ("ps", 0)))
except hf.errors.InvalidArgumentError as e:
    print(f"caught: {e}", flush=True)
""")
    assert status == 0 and "Traceback" not in output, output
    assert output.count("caught: 'mpi://7' is not an address of a rank") == 2


def test_a_rank_that_was_refused_its_task_keeps_nobody_waiting(job):
    status, output = job("", ranks=3, prelude="""
import hpcflow as hf
cluster = {"ps": ["mpi://0"], "worker": ["mpi://1", "mpi://2"]}
rank = hf.mpi.rank()
try:
    server = hf.train.Server(cluster, "worker" if rank else "ps", 0)  # on ranks 1 and 2
    server.join()
    print("joined", flush=True)
except hf.errors.InvalidArgumentError as e:
    print(f"caught: {e}", flush=True)
""")
    assert status == 0 and "Traceback" not in output, output
    assert output.count("joined") == 2 and output.count("caught: mpi://1 is not this rank") == 1


@pytest.mark.parametrize("steps", [(2, 7), (7, 2)])
def test_workers_with_more_and_less_data_train_synchronously(job, steps):
    """Who has data goes on after the other has none: nobody waits for ever."""
    status, output = job(f"""
steps = {steps}[task.index] if task.job == "worker" else 0
""" + """
if task.job == "ps":
    server.join()
    sys.exit()
place = hf.train.replica_device_setter(cluster=task.cluster,
                                       worker_device=f"/job:worker/task:{task.index}")
with hf.device(place):
    count = hf.train.get_or_create_global_step()
    w = hf.get_variable("w", [4], initializer=hf.zeros_initializer())
    optimizer = hf.train.SyncReplicasOptimizer(hf.train.GradientDescentOptimizer(0.1),
                                               replicas_to_aggregate=2, total_num_replicas=2)
    train = optimizer.minimize(hf.reduce_sum(hf.square(w - 1.0)), global_step=count)
hook = optimizer.make_session_run_hook(task.index == 0)
with hf.train.MonitoredTrainingSession(server.target, task.index == 0, hooks=[hook]) as session:
    for _ in range(steps):
        session.run(train)
print("worker", task.index, "left", flush=True)
""")
    assert status == 0, output
    assert "worker 0 left" in output and "worker 1 left" in output


def test_replicas_of_older_programs_may_end_before_others(tmp_path):
    """They have a Supervisor, and just end, with an open session, when they are out of data."""
    ended = run_job(tmp_path, ["""
        import os
        import hpcflow as tf
        rank = int(os.environ["PMIX_RANK"])
        job, index = ("worker", rank - 1) if rank else ("ps", 0)
        cluster = tf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1", "c:1"]})
        server = tf.train.Server(cluster, job, index)
        if job == "ps":
            server.join()
        with tf.device(tf.train.replica_device_setter(
                cluster=cluster, worker_device=f"/job:worker/task:{index}")):
            step = tf.Variable(0, name="global_step", trainable=False)
            w = tf.Variable(tf.zeros([4]))
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(0.1), 2, 2)
            train_op = optimizer.minimize(tf.reduce_sum(tf.square(w - 1.0)), global_step=step)
            runner, tokens = optimizer.get_chief_queue_runner(), optimizer.get_init_tokens_op()
            supervisor = tf.train.Supervisor(
                is_chief=index == 0, saver=None, recovery_wait_secs=1, global_step=step,
                local_init_op=(optimizer.local_step_init_op if index
                               else optimizer.chief_init_op),
                ready_for_local_init_op=optimizer.ready_for_local_init_op)
        session = supervisor.prepare_or_wait_for_session(server.target)
        if index == 0:
            session.run(tokens)
            supervisor.start_queue_runners(session, [runner])
        for _ in range((10, 40)[index]):
            session.run(train_op)
        print(f"[rank {rank}] ends", flush=True)
        """], 3, OMP_NUM_THREADS="1")
    assert ended.status == 0, ended.output
    assert ended.lines_of(1) == ["ends"] and ended.lines_of(2) == ["ends"], ended.output


@pytest.mark.parametrize(("device", "kind", "said"), [
    ("/job:ps/task:0", "float64", "exists with float32(3,), but this graph declares it with"),
    ("/job:ps/task:5", "float32", "Not in the cluster: /job:ps/task:5; it has /job:ps/task:0")])
def test_one_worker_with_a_wrong_graph_ends_the_job_by_name(job, tmp_path, device, kind, said):
    """The others, in steps of their own or serving, end with it."""
    status, output = job(f"""
if task.job == "ps":
    server.join()
    sys.exit()
wrong = task.index == 1
with hf.device("{device}" if wrong else "/job:ps/task:0"):
    v = hf.get_variable("v", [3], hf.{kind} if wrong else hf.float32,
                        initializer=hf.zeros_initializer())
session = hf.Session(server.target)
if not wrong:
    session.run(v.initializer)
    open({str(tmp_path / "made")!r}, "w").close()
    while True:
        session.run(v + 1.0)
while not os.path.exists({str(tmp_path / "made")!r}):
    time.sleep(0.01)
session.run(v + 1)
""")
    assert status != 0, output
    assert "[rank 2] failed; ending the job" in output and said in output
    assert f"created at {tmp_path / 'program.py'}:" in output
