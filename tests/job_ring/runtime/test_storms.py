"""Jobs under signals every few milliseconds, and with many threads that run steps on a cluster."""

from __future__ import annotations

import pytest
from jobs import run_job

PREAMBLE = """
    import os, signal, sys, threading, time
    import numpy as np
    import hpcflow as hf
    task = hf.mpi.task(jobs={"ps": 1})
    server = hf.train.Server(task.cluster, task.job, task.index)
    who = task.job + ("" if task.job == "ps" else str(task.index))
    with hf.device("/job:ps/task:0"):
        total = hf.Variable(np.zeros(1000, np.int64), name="total")
        ready = hf.Variable(False, name="ready")
        add = hf.assign_add(total, np.ones(1000, np.int64)).op
        done = hf.FIFOQueue(100, [hf.int32], [[]], shared_name="done")

    def begin(session):
        if task.index == 0:
            session.run([total.initializer, ready.initializer])
            session.run(hf.assign(ready, True).op)
        missing = hf.report_uninitialized_variables([total, ready])
        while session.run(missing).size or not session.run(ready):
            time.sleep(0.02)

    def end(session, workers, steps):
        session.run(done.enqueue(1))
        if task.index == 0:
            session.run(done.dequeue_many(workers))
            found = session.run(total)
            assert (found == steps).all(), found
            print(f"[rank {task.rank}] counted {found[0]}", flush=True)
"""


def test_signals_every_ten_milliseconds(tmp_path):
    """In all ranks, while they train with products, exchange values, save and restore."""
    ended = run_job(tmp_path, [PREAMBLE, f"""
    came = []
    signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    if who == "ps":
        server.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.exit()
    x = hf.random_uniform([256, 256])
    product = hf.reduce_sum(hf.matmul(x, x))
    saver = hf.train.Saver([total])
    with hf.Session(server.target) as session:
        begin(session)
        for step in range(200):
            session.run(add)
            assert session.run(product) > 0
            if step % 50 == 0 and task.index == 0:
                saver.save(session, os.path.join({str(tmp_path)!r}, "model"), step)
        while len(came) <= 20:
            session.run(product)
        end(session, 2, 400)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(f"[rank {{task.rank}}] signals: {{len(came) > 20}}", flush=True)
    """], 3)
    assert ended.status == 0, ended.output
    assert "[rank 1] counted 400" in ended.output
    assert ended.output.count("signals: True") == 2, ended.output


@pytest.mark.parametrize("sessions", [1, 16])
def test_sixteen_threads_on_a_cluster(tmp_path, sessions):
    """Each runs steps on the same session, or on one of its own; every update counts once."""
    ended = run_job(tmp_path, [PREAMBLE, f"""
    if who == "ps":
        server.join()
        sys.exit()
    own = [hf.Session(server.target) for _ in range({sessions})]
    begin(own[0])
    odd = []

    def work(session):
        try:
            for step in range(25):
                session.run([add, total] if step % 5 else add)
        except Exception as error:
            odd.append(error)

    threads = [threading.Thread(target=work, args=(own[i % {sessions}],)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not odd, odd
    end(own[0], 2, 2 * 16 * 25)
    for session in own:
        session.close()
    """], 3)
    assert ended.status == 0, ended.output
    assert "[rank 1] counted 800" in ended.output, ended.output
