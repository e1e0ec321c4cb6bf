"""Checkpoints of variables that live on several ranks.

Every test runs on all ranks; with one rank the only task is a worker that does it all alone.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.storage import writing

pytestmark = pytest.mark.ranks(4)

SHAPE = (13, 5)


@contextmanager
def cluster(ps: int):
    """(task, session of the first worker or None) on every rank, in a graph of its own."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    ps = min(ps, comm.size - 1)
    task = hf.mpi.task(jobs={"ps": ps} if ps else {}, comm=comm)
    server = hf.train.Server(task.cluster, task.job, task.index)
    with hf.Graph().as_default():
        if task.job == "worker" and task.index == 0:
            with hf.Session(server.target) as session:
                yield task, session
        else:
            yield task, None
    server.join()


@pytest.fixture
def directory(tmp_path):
    """One directory for all ranks."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.bcast(str(tmp_path))


def build(task, parts):
    with hf.device(hf.train.replica_device_setter(cluster=task.cluster)):
        hf.get_variable("large", [300, 1000], initializer=hf.zeros_initializer())
        hf.Variable("", name="text")
        hf.get_variable("table", SHAPE, initializer=hf.zeros_initializer(),
                        partitioner=hf.fixed_size_partitioner(parts))
        hf.train.create_global_step()
    return {v.op.name: v for v in hf.global_variables()}


def expected(variables):
    """What every variable is to hold, by name."""
    rng = np.random.default_rng(5)
    values = {"large": rng.random((300, 1000), np.float32), "text": "ranks", "global_step": 3}
    table, start = rng.random(SHAPE, np.float32), 0
    for name in sorted(n for n in variables if n.startswith("table")):
        stop = start + variables[name].get_shape()[0].value
        values[name], start = table[start:stop], stop
    return values


def fill(session, variables):
    session.run(hf.global_variables_initializer())
    for name, value in expected(variables).items():
        variables[name].load(value, session)


def check(session, variables):
    found = session.run(variables)
    for name, value in expected(variables).items():
        value = value.encode() if isinstance(value, str) else value
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(("saving", "restoring"), [((2, 3), (1, 1)), ((1, 2), (3, 5))])
def test_other_numbers_of_ranks_restore_it(directory, saving, restoring):
    path = os.path.join(directory, "m")
    with cluster(saving[0]) as (task, session):
        if session is not None:
            variables = build(task, saving[1])
            fill(session, variables)
            saved = hf.train.Saver().save(session, path, global_step=variables["global_step"])
            assert saved == f"{path}-3"
            assert sorted(os.listdir(directory)) == ["checkpoint", "m-3.h5", "m-3.meta"]
    with cluster(restoring[0]) as (task, session):
        if session is not None:
            variables = build(task, restoring[1])
            hf.train.Saver().restore(session, hf.train.latest_checkpoint(directory))
            check(session, variables)


def test_a_rank_that_cannot_write(directory, monkeypatch):
    """The write fails on the rank that holds variables; the error reaches the first worker."""
    path = os.path.join(directory, "m")
    original = writing._prepare
    broken = os.path.join(directory, "broken")

    def prepare(layout, *piece):
        if os.path.exists(broken):
            raise hf.errors.ResourceExhaustedError(None, None, "no space left here")
        return original(layout, *piece)

    monkeypatch.setattr(writing, "_prepare", prepare)
    with cluster(2) as (task, session):
        if session is None:
            return
        variables = build(task, 2)
        fill(session, variables)
        saver = hf.train.Saver()
        saver.save(session, path, write_meta_graph=False)
        open(broken, "w").close()
        for _ in range(2):
            with pytest.raises(hf.errors.ResourceExhaustedError, match="no space left here"):
                saver.save(session, path, write_meta_graph=False)
        os.unlink(broken)
        assert sorted(os.listdir(directory)) == ["checkpoint", "m.h5"]
        session.run(hf.global_variables_initializer())
        saver.restore(session, path)
        check(session, variables)


@pytest.mark.ranks(1)
def test_a_damaged_checkpoint_changes_no_rank(directory):
    path = os.path.join(directory, "m")
    with cluster(2) as (task, session):
        if session is None:
            return
        variables = build(task, 2)
        fill(session, variables)
        saver = hf.train.Saver()
        saver.save(session, path, write_meta_graph=False)
        session.run(hf.global_variables_initializer())
        with open(path + ".h5", "r+b") as file:
            data = file.read()
            at = data.find(expected(variables)["large"][100].tobytes())
            file.seek(at)
            file.write(b"\xff" * 8)
        with pytest.raises(hf.errors.DataLossError, match="'large'"):
            saver.restore(session, path)
        found = session.run(variables)
        assert found["global_step"] == 0
        assert not any(np.any(found[n]) for n in found if n != "text")


def test_ranks_write_what_they_held(directory):
    path = os.path.join(directory, "held")
    with cluster(2) as (task, session):
        if session is not None:
            variables = build(task, 2)
            fill(session, variables)
            saver = hf.train.Saver(async_save=True)
            saver.save(session, path)
            session.run([v.initializer for v in variables.values()])
            saver.restore(session, path)
            check(session, variables)
