"""Ranks that do different things in a step all get one error, and go on together."""

from __future__ import annotations

import random
import re
import threading

import jobs
import numpy as np
import pytest
from replicas import run_replicas, values
from speed import patience

import hpcflow as hf
from hpcflow.host import tuning

LENGTH = 5000


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(tuning.runtime, "COLLECTIVE_ASK_SECONDS", 0.05)


def operations(index):
    """Name -> an operation and what it gives on three ranks."""
    own = np.arange(LENGTH, dtype=np.float32) + index
    total = 3 * np.arange(LENGTH) + 3
    return {
        "sum": (hf.mpi.allreduce(hf.constant(own)), total),
        "max": (hf.mpi.allreduce(hf.constant(own), "max"), np.arange(LENGTH) + 2),
        "short": (hf.mpi.allreduce(hf.constant([float(index)])), [3.0]),
        "gather": (hf.mpi.allgather(hf.constant([[float(index)]])), [[0.0], [1.0], [2.0]]),
        "two": (hf.mpi.allreduce(hf.constant(own)) + hf.mpi.allreduce(hf.constant(own * 2.0)),
                3 * total),
    }


def outcome(session, operation):
    """What the error of a step says, or its value."""
    try:
        return session.run(operation)
    except hf.errors.InvalidArgumentError as error:
        found = re.match(r"The ranks do not run .*? on rank \d+, .*? on rank \d+", error.message)
        return found.group() if found else str(error)  # without the operation where it was raised


def run_programs(programs):
    """Let each rank run the operations that its list names; what each step gave, by rank."""

    def program(index, target):
        known = operations(index)
        with hf.Session(target) as session:
            return [outcome(session, known[name][0]) for name in programs[index]]

    return values(run_replicas(len(programs), program))


def check(programs):
    """Where all ranks ran the same, each has the right value; elsewhere all have one error."""
    with hf.Graph().as_default():
        expected = {name: value for name, (_, value) in operations(0).items()}
    results = run_programs(programs)
    for step, (names, got) in enumerate(zip(zip(*programs), zip(*results))):
        if len(set(names)) == 1:
            for value in got:
                assert not isinstance(value, str), (step, names, value)
                np.testing.assert_allclose(value, expected[names[0]], rtol=1e-6)
        else:
            assert len(set(got)) == 1, (step, names, got)
            assert "do not run the same collective operations" in got[0], (step, names, got)


@pytest.mark.parametrize("programs", [
    (["sum", "sum"], ["max", "sum"], ["sum", "sum"]),  # the first step of all
    (["sum", "max", "max", "sum"], ["sum", "sum", "max", "sum"], ["sum", "gather", "max", "sum"]),
    (["sum", "max", "sum", "max", "sum", "max"], ["sum", "max", "max", "sum", "sum", "max"],
     ["sum", "max", "sum", "max", "sum", "max"]),  # known to all
    (["short", "two", "short", "two"], ["short", "two", "short", "two"],
     ["short", "short", "short", "two"])])  # known, and new
def test_a_dispute_is_over_with_its_step(programs):
    check(programs)


@pytest.mark.timeout(120)
def test_random_programs():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    numbers, names = random.Random(seed), ["sum", "max", "short", "gather", "two"]
    steps = []
    for _ in range(40):
        same = [numbers.choice(names)] * 3
        steps.append(same if numbers.random() < 0.6 else [numbers.choice(names) for _ in range(3)])
    check([list(program) for program in zip(*steps)])


def test_a_branch_without_the_operation():
    refused = threading.Event()

    def program(index, target):
        enters = hf.placeholder(hf.bool, [])
        total = hf.cond(enters, lambda: hf.mpi.allreduce(hf.ones([3])), lambda: hf.zeros([3]))
        found = []
        with hf.Session(target) as session:
            for step, mine in enumerate((True, index == 0, True)):
                if index and step == 2:
                    refused.wait(patience())
                try:
                    found.append(session.run(total, {enters: mine}).tolist())
                except hf.errors.FailedPreconditionError as error:
                    found.append(str(error))
                    refused.set()
        return found

    first, second = values(run_replicas(2, program))
    assert first[0] == second[0] == first[2] == second[2] == [2.0] * 3
    assert second[1] == [0.0] * 3 and "has ended without it" in first[1]


def test_ranks_dispute_and_go_on(tmp_path):
    ended = jobs.run_job(tmp_path, ["""
    import numpy as np
    import hpcflow as hf
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
    own = hf.constant(np.full(100_000, task.rank + 1.0, np.float32))
    total, most = hf.mpi.allreduce(own), hf.mpi.allreduce(own, "max")
    with hf.Session() as session:
        for one, other in [(total, total), (total, most), (most, most), (total, total),
                           (most, total), (total, total), (most, most)]:
            try:
                print(f"[rank {task.rank}]", session.run(other if task.rank == 1 else one)[-1],
                      flush=True)
            except hf.errors.InvalidArgumentError as error:
                print(f"[rank {task.rank}]", str(error).splitlines()[0][:60], flush=True)
    """], 3)
    assert ended.status == 0, ended.output
    dispute = "The ranks do not run the same collective operations: number "
    expected = ["6.0", dispute[:60], "3.0", "6.0", dispute[:60], "6.0", "3.0"]
    for rank in range(3):
        assert ended.lines_of(rank) == expected, ended.output
