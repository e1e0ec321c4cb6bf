"""Sessions on a cluster that are closed while other threads begin and run steps."""

from __future__ import annotations

import random
import threading

import jobs
import pytest

import hpcflow as hf

LIMIT_SECONDS = 60.0

# Also the text of a rank's program.
WORK = '''
import random, threading, time

def build(tasks):
    """Steps over several tasks: short ones, loops, and some that wait for good."""
    with hf.device(tasks[0]):
        v = hf.Variable(hf.zeros([10]), name="v")
        waits = hf.FIFOQueue(1, hf.float32, [[]], shared_name="never").dequeue()
    with hf.device(tasks[1]):
        add = hf.assign_add(v, hf.ones([10]))
        waits_too = waits + 1.0
    with hf.device(tasks[2]):
        far = hf.reduce_sum(v * 2.0)
        large = hf.reduce_sum(hf.random_uniform([200, 200]))
    loop = hf.while_loop(lambda i: i < 3, lambda i: i + 1, [hf.constant(0)])
    return v, [add, add.op, far, [far, add], waits_too, waits, loop, large, v]

def run_until_closed(session, steps, choice, begin, odd):
    begin.wait()
    while True:
        try:
            session.run(choice(steps))
        except hf.errors.CancelledError:
            pass
        except RuntimeError as error:
            if "closed" not in str(error):
                odd.append(error)
            return
        except Exception as error:
            odd.append(error)
            return

def close_under_load(targets, steps, number, threads, seed, limit):
    """Run steps in threads on several sessions and close these; what else than the errors of a
    closed session was raised, and the threads that did not end."""
    numbers, odd = random.Random(seed), []
    sessions = [hf.Session(targets[i % len(targets)]) for i in range(number)]
    begin = threading.Barrier(threads + 1)
    workers = [threading.Thread(target=run_until_closed, daemon=True, args=(
        sessions[i % number], steps, random.Random(numbers.random()).choice, begin, odd))
        for i in range(threads)]
    for worker in workers:
        worker.start()
    begin.wait()
    for session in sessions:
        time.sleep(numbers.random() * 0.1)
        session.close()
    for worker in workers:
        worker.join(limit)
    return odd, [worker.name for worker in workers if worker.is_alive()]
'''
exec(WORK)  # defines what is above
build, close_under_load = globals()["build"], globals()["close_under_load"]


@pytest.fixture
def servers():
    spec = hf.train.ClusterSpec({"ps": ["localhost:2222"],
                                 "worker": ["localhost:3333", "localhost:3334"]})
    made = [hf.train.Server(spec, job, index)
            for job, index in (("ps", 0), ("worker", 0), ("worker", 1))]
    with hf.Graph().as_default():
        yield made
    for server in made:
        server._server.close()


@pytest.mark.timeout(300)
def test_closing_under_load(servers, monkeypatch):
    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    v, steps = build(["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"])
    seed = random.randrange(1 << 30)
    print("seed", seed)
    with hf.Session(servers[1].target) as last:
        last.run(v.initializer)
        for trial in range(4):
            odd, left = close_under_load([s.target for s in servers], steps, 4, 16, seed + trial,
                                         LIMIT_SECONDS)
            assert not (odd or left or died)
        assert last.run(v)[0] >= 0.0  # the cluster goes on


@pytest.mark.timeout(200)
def test_closing_under_load_on_ranks(tmp_path):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    ended = jobs.run_job(tmp_path, ["import hpcflow as hf\n", WORK, f"""
task = hf.mpi.task(jobs={{"ps": 1}})
server = hf.train.Server(task.cluster, task.job, task.index)
v, steps = build(["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"])
if task.job == "worker":
    session = hf.Session(server.target)
    session.run(v.initializer)
    for trial in range(2):
        odd, left = close_under_load([server.target], steps, 2, 8, {seed} + trial, 30)
        assert not odd and not left, (odd, left)
    print(f"[rank {{task.rank}}] {{session.run(v)[0] >= 0.0}}", flush=True)
server.join()
"""], 3)
    assert ended.status == 0, ended.output
    assert ended.lines_of(1) == ended.lines_of(2) == ["True"], ended.output


def test_a_step_of_a_closed_session_is_refused(servers):
    """A thread has found its step, and then the session is closed."""
    v, steps = build(["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"])
    session = hf.Session(servers[1].target)
    session.run(v.initializer)
    session.run(steps[0])
    step = next(iter(session._unfed.values())).step
    session.close()
    with pytest.raises(hf.errors.CancelledError, match="its session has been closed"):
        step(())
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(steps[0])


def test_messages_about_what_is_gone_are_answered(servers):
    """Starts, lanes and the tags of lanes of a plan that the other task has forgotten."""
    from hpcflow.runtime.wire import wire

    v, steps = build(["/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"])
    session = hf.Session(servers[1].target)
    session.run(v.initializer)
    session.run(steps[0])
    step = next(s for s in session._engine._steps if s.names == [steps[0].name])
    endpoint = session._engine.endpoint
    rank = step.remote_ranks[0]
    endpoint.transport.send_message(rank, wire.pack(
        wire.DEREGISTER, body={"plans": [step.plan], "session": "another"}))
    endpoint.wait_for([endpoint.request(rank, "describe")], "the task to have forgotten the plan")
    for kind in (wire.LANE_OPEN, wire.REPORT, wire.ABORT):
        endpoint.transport.send_message(rank, wire.pack(kind, step.plan, 0, 1, body={}))
    for _ in range(2):  # on the lane that is there, and on a new one
        with pytest.raises(hf.errors.CancelledError, match="has been closed"):
            session.run(steps[0])
        step._free.clear()
    session.close()
