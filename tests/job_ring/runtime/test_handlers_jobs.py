"""Signal handlers that raise, in jobs: wherever it happens, all ranks go on or all of them fail."""

from __future__ import annotations

import pytest
from jobs import run_job

#: A handler that raises, and `raising(at)`: in it the signal comes at that line of our rooms.
PREAMBLE = """
    import contextlib, signal, sys, threading, time
    import numpy as np
    import hpcflow as hf
    from hpcflow.base.held_signals import held

    class Left({kind}):
        pass

    def handler(number, frame):
        raise Left("left by the handler")

    signal.signal(signal.SIGUSR2, handler)
    ROOMS = ("hpcflow.comm", "hpcflow.runtime", "hpcflow.resources")
    state = {{"lines": 0, "at": 0}}

    def trace(frame, event, argument):
        return line if frame.f_globals.get("__name__", "").startswith(ROOMS) else None

    def line(frame, event, argument):
        state["lines"] += 1
        if state["lines"] == state["at"]:
            signal.raise_signal(signal.SIGUSR2)
        return line

    @contextlib.contextmanager
    def raising(at):
        state.update(lines=0, at=at)
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(None)
            while held:  # the step was over before the handler could run: it does so here
                time.sleep(0.001)
"""


@pytest.mark.parametrize("kind, lines", [
    ("ValueError", [*range(1, 240, 13), *range(240, 1500, 147)]),
    ("KeyboardInterrupt", [20, 90, 200, 600]),
    ("SystemExit", [20, 90, 200, 600]),
])
def test_reductions(tmp_path, kind, lines):
    """Rank 1 leaves a reduction; the next one is right on all ranks."""
    ended = run_job(tmp_path, [PREAMBLE.format(kind=kind), f"""
    lines = {lines}
    """, """
    me, size = hf.mpi.rank(), hf.mpi.size()
    x = hf.placeholder(hf.float32, [4])
    total = hf.mpi.allreduce(x)
    value = np.arange(4.0) + me
    expected = sum(np.arange(4.0) + rank for rank in range(size))
    left = 0
    with hf.Session() as session:
        for at in [0, *lines]:
            try:
                with raising(at) if me == 1 else contextlib.nullcontext():
                    assert (session.run(total, {x: value}) == expected).all()
            except Left:
                left += 1
            except hf.errors.AbortedError as error:
                assert "rank 1 failed: The step was interrupted: " in str(error), error
            assert (session.run(total, {x: value}) == expected).all()
    if me == 1:
        print(f"[rank 1] left some: {left > 2}", flush=True)
    """], 3)
    assert ended.status == 0, ended.output
    assert ended.lines_of(1) == ["left some: True"], ended.output


@pytest.mark.parametrize("where", ["ps", "worker"])
def test_steps_of_a_server(tmp_path, where):
    """A server leaves `join`, and serves on, or its worker leaves a step: no update is lost."""
    ended = run_job(tmp_path, [PREAMBLE.format(kind="BaseException"), f"""
    where = {where!r}
    """, """
    task = hf.mpi.task(jobs={"ps": 1})
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.device("/job:ps/task:0"):
        total = hf.Variable(np.zeros(1000, np.int64), name="total")
        add = hf.assign_add(total, np.ones(1000, np.int64)).op
    left = 0
    while task.job == "ps":
        try:
            with raising(1 + 17 * left) if where == "ps" else contextlib.nullcontext():
                server.join()
            print(f"[rank 0] left some: {left > 5}", flush=True)
            sys.exit()
        except Left:
            left += 1
    done = 0
    with hf.Session(server.target) as session:
        session.run(total.initializer)
        for at in range(1, 1200, 23):
            try:
                with raising(at) if where == "worker" else contextlib.nullcontext():
                    session.run(add)
                done += 1
            except Left:
                left += 1
        found = session.run(total)
        assert (found == found[0]).all() and done <= found[0] <= done + left, (found, done, left)
    print(f"[rank 1] left some: {left > 20}", flush=True)
    """], 2)
    assert ended.status == 0, ended.output
    assert ended.lines_of(0) == [f"left some: {where == 'ps'}"], ended.output
    assert ended.lines_of(1) == [f"left some: {where == 'worker'}"], ended.output


def test_handlers_come_in_time(tmp_path):
    """Loops without an end, functions of the program and long work are left; a handler may run
    steps; what a program sees of its handlers is what it has set."""
    ended = run_job(tmp_path, [PREAMBLE.format(kind="BaseException"), """
    assert signal.getsignal(signal.SIGUSR2) is handler
    me, size = hf.mpi.rank(), hf.mpi.size()
    total = hf.mpi.allreduce(hf.constant(1.0))
    entered = []  # no Event: the handler may come while that is set, and leave it locked

    def enter(value):
        entered.append(value)
        return value

    def sleep(value):
        enter(value)
        while True:
            time.sleep(0.01)

    def body(i):
        seen = hf.py_func(enter, [i], hf.int32)
        seen.set_shape([])
        return i + seen * 0 + 1

    endless = hf.while_loop(lambda i: i >= 0, body, [0])
    asleep = hf.py_func(sleep, [hf.constant(0)], hf.int32)

    def interrupt():
        while not entered:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)

    def leave(session, fetch):
        entered.clear()
        threading.Thread(target=interrupt).start()
        try:
            session.run(fetch)
        except Left:
            return True

    with hf.Session() as session:
        assert session.run(total) == size
        assert signal.getsignal(signal.SIGUSR2) is handler
        assert leave(session, endless)
        assert leave(session, asleep)
        # In user code after a step that has ended before the handler could run.
        assert session.run(total) == size

        ran = []
        assert signal.signal(signal.SIGUSR2,
                             lambda *_: ran.append(session.run(hf.constant(3)))) is handler
        if me:
            session.run(total)
        else:
            with raising(300):
                session.run(total)
            while not ran:
                time.sleep(0.001)
            assert ran == [3], ran
        assert session.run(total) == size
    print(f"[rank {me}] done", flush=True)
    """], 2)
    assert ended.status == 0, ended.output
    assert ended.lines_of(0) == ended.lines_of(1) == ["done"], ended.output
