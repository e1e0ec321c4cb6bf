"""Jobs that are preempted: all ranks stop at one step, the chief saves, the status says so."""

from __future__ import annotations

import os
import re
import signal

import pytest
from jobs import run_job

import hpcflow as hf

BEGIN = """
    import os, signal, sys, time
    import hpcflow as hf

    rank, directory = hf.mpi.rank(), {directory!r}
    saved = hf.train.latest_checkpoint(directory)
    first = int(saved.rpartition("-")[2]) if saved else 0

    begun = directory + ".begun"

    def preempt():
        if {file!r}:
            open({file!r}, "w").close()
        else:
            os.kill(os.getpid(), signal.{signal})

    def model(opt):
        step, w = hf.train.get_or_create_global_step(), hf.Variable(hf.zeros([3]), name="w")
        return step, opt.minimize(hf.reduce_sum(hf.square(w - 1.0)), global_step=step)
"""
AVERAGED = """
    step, train = model(hf.mpi.DistributedOptimizer(hf.train.GradientDescentOptimizer(0.001)))
"""
MONITORED = """
    done = 0
    with hf.train.MonitoredTrainingSession(
            "", rank == 0, directory, hooks=[hf.mpi.BroadcastVariablesHook(0),
                                             hf.train.StopAtStepHook(last_step={last})],
            save_checkpoint_secs={secs}) as session:
        while not session.should_stop():
            now, _ = session.run([step, train])
            done += 1
            if done == 20 and rank == {who}:
                preempt()
    print(f"[rank {{rank}}] ended after {{done}}", flush=True)
"""
OWN = """
    saver, done = hf.train.Saver(), 0
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(hf.mpi.broadcast_variables(0))
        while not hf.train.preemption_requested():
            session.run(train)
            done += 1
            if done == 20 and rank == {who}:
                preempt()
        print(f"[rank {{rank}}] stopped after {{done}}", flush=True)
        hf.train.save_and_exit(session, saver if rank == 0 else None,
                               directory + "/model.ckpt", step)
"""
SUPERVISED = """
    supervisor, done = hf.train.Supervisor(logdir=directory if rank == 0 else None), 0
    with supervisor.managed_session() as session:
        while not supervisor.should_stop():
            session.run(train)
            done += 1
            if done == 20 and rank == {who}:
                preempt()
        print(f"[rank {{rank}}] stopped after {{done}}", flush=True)
"""
SERVED = """
    task = hf.mpi.task(jobs={{"ps": 1}})
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        def follow():
            while not os.path.exists(begun):
                time.sleep(0.01)
            preempt()

        if {who} == 0:
            import threading
            threading.Thread(target=follow, daemon=True).start()
        server.join()
        sys.exit()
    with hf.device(hf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{{task.index}}")):
        step, train = model(hf.train.GradientDescentOptimizer(0.001))
    done = 0
    with hf.train.MonitoredTrainingSession(
            server.target, task.index == 0, directory, save_checkpoint_secs=1000) as session:
        while not session.should_stop():
            session.run(train)
            done += 1
            if done == 20:
                open(begun, "w").close()
                if rank == {who}:
                    preempt()
    print("not reached", flush=True)
"""


def preempted(tmp_path, parts, ranks, who=1, signal="SIGTERM", file="", last=10**9, secs=1000,
              **variables):
    """(how the job ended, the step of its checkpoint)."""
    directory = str(tmp_path / "model")
    values = {"directory": directory, "who": who, "signal": signal, "file": file, "last": last,
              "secs": secs}
    ended = run_job(tmp_path, [p.format(**values) for p in parts], ranks,
                    HPCFLOW_PREEMPTION_GRACE="100000", **variables)
    saved = hf.train.latest_checkpoint(directory)
    return ended, int(saved.rpartition("-")[2]) if saved else None


@pytest.mark.parametrize("style", ["monitored", "own", "supervised"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_stop_at_one_step(tmp_path, style, ranks):
    loop = {"monitored": MONITORED, "own": OWN, "supervised": SUPERVISED}[style]
    ended, step = preempted(tmp_path, [BEGIN, AVERAGED, loop], ranks, who=ranks - 1,
                            signal="SIGUSR1" if style == "own" else "SIGTERM")
    assert ended.status == 75, ended.output
    assert step is not None and 20 <= step < 10**6
    if style != "monitored":
        assert set(re.findall(r"after (\d+)", ended.output)) == {str(step)}
        assert ended.output.count("stopped after") == ranks


def test_a_file_preempts_without_periodic_checkpoints_and_training_goes_on_on_fewer_ranks(tmp_path):
    file = str(tmp_path / "stop")
    ended, step = preempted(tmp_path, [BEGIN, AVERAGED, MONITORED], 3, file=file, secs=0,
                            HPCFLOW_PREEMPTION_FILE=file, HPCFLOW_PREEMPTED_STATUS="93")
    assert ended.status == 93, ended.output
    os.remove(file)
    ended, last = preempted(tmp_path, [BEGIN, AVERAGED, MONITORED], 2, who=-1, last=step + 10,
                            secs=1000)
    assert ended.status == 0, ended.output
    assert last == step + 10
    assert ended.output.count("ended after 10") == 2


@pytest.mark.parametrize("who", [0, 1, 2])
def test_workers_stop_and_the_chief_saves(tmp_path, who):
    ended, step = preempted(tmp_path, [BEGIN, SERVED], 3, who=who)
    assert ended.status == 75, ended.output
    assert "not reached" not in ended.output
    assert step is not None and step > 0


def test_handlers_are_called_too_and_come_back():
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        with hf.Graph().as_default():
            step = hf.train.get_or_create_global_step()
            add = hf.assign_add(step, 1)
            with pytest.raises(SystemExit) as stop:
                with hf.train.MonitoredTrainingSession() as session:
                    while not session.should_stop():
                        if session.run(add) == 3:
                            os.kill(os.getpid(), signal.SIGUSR1)
            assert stop.value.code == 75
            assert seen == [signal.SIGUSR1]
    finally:
        from hpcflow.runtime.cluster import preemption

        preemption.watch.reset()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGUSR1, before)
