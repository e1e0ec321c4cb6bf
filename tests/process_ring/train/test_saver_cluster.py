"""Checkpoints of variables that live on several tasks, all in this process."""

from __future__ import annotations

import os

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import storage

SHAPE = (11, 3)


@pytest.fixture
def cluster():
    """Makes a cluster with a number of parameter servers; returns the first worker's target."""
    made = []

    def make(ps):
        spec = hf.train.ClusterSpec({
            "ps": [f"ps{ps}-{i}" for i in range(ps)], "worker": [f"worker{ps}"]})
        servers = [hf.train.Server(spec, job, index)
                   for job in spec.jobs for index in spec.task_indices(job)]
        made.extend(servers)
        return spec, servers[-1].target

    with hf.Graph().as_default():
        yield make
    for server in made:
        server._server.close()


def build(spec, parts):
    """A plain variable, a scalar, a string and a partitioned one, spread over the servers."""
    with hf.device(hf.train.replica_device_setter(cluster=spec)):
        hf.get_variable("plain", initializer=np.zeros((2, 2), np.float32))
        hf.get_variable("scalar", initializer=0)
        hf.Variable("", name="text")
        hf.get_variable("table", SHAPE, initializer=hf.zeros_initializer(),
                        partitioner=hf.fixed_size_partitioner(parts))
    return {v.op.name: v for v in hf.global_variables()}


def fill(session, variables):
    session.run(hf.global_variables_initializer())
    variables["plain"].load(np.ones((2, 2), np.float32), session)
    variables["scalar"].load(7, session)
    variables["text"].load("words", session)
    start, whole = 0, np.arange(33, dtype=np.float32).reshape(SHAPE)
    for name in sorted(n for n in variables if n.startswith("table")):
        rows = variables[name].get_shape()[0].value
        variables[name].load(whole[start : start + rows], session)
        start += rows


def check(session, variables):
    found = session.run(variables)
    np.testing.assert_array_equal(found["plain"], np.ones((2, 2)))
    assert found["scalar"] == 7
    assert found["text"] == b"words"
    parts = [found[n] for n in sorted(found) if n.startswith("table")]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(33).reshape(SHAPE))


def files_left(directory):
    return sorted(name for name in os.listdir(directory))


def test_each_task_writes_what_it_owns(cluster):
    spec, _ = cluster(2)
    build(spec, 3)
    hf.train.Saver()
    writes = [op for op in hf.get_default_graph().get_operations() if op.type == "_CheckpointWrite"]
    assert [op.device for op in writes] == [
        f"/job:ps/task:{i}/device:CPU:0" for i in range(2)]
    for op in writes:
        # Every value is read on the task that writes it.
        assert {t.op.inputs[0].device for t in op.inputs[1:]} <= {op.device[:14]}


@pytest.mark.parametrize(
    ("saved", "restored"), [((2, 3), (1, 2)), ((1, 1), (3, 4)), ((2, 2), None)])
def test_other_numbers_of_tasks_and_parts_restore_it(cluster, tmp_path, saved, restored):
    path = str(tmp_path / "m")
    spec, target = cluster(saved[0])
    variables = build(spec, saved[1])
    with hf.Session(target) as session:
        fill(session, variables)
        assert hf.train.Saver().save(session, path, write_meta_graph=False) == path
    assert files_left(tmp_path) == ["checkpoint", "m.h5"]
    with hf.Graph().as_default():
        spec, target = cluster(restored[0]) if restored else ({"worker": ["alone"]}, "")
        variables = build(spec, restored[1] if restored else 1)
        with hf.Session(target) as session:
            hf.train.Saver().restore(session, path)
            check(session, variables)


def test_a_failure_on_one_task_leaves_nothing(cluster, tmp_path, monkeypatch):
    spec, target = cluster(2)
    variables = build(spec, 2)
    saver = hf.train.Saver()
    path = str(tmp_path / "m")
    with hf.Session(target) as session:
        fill(session, variables)
        saver.save(session, path, write_meta_graph=False)
        original, calls = storage.write, []

        def failing(layout, pieces):
            calls.append(1)
            if len(calls) == 2:
                raise hf.errors.ResourceExhaustedError(None, None, "no space on this task")
            return original(layout, pieces)

        monkeypatch.setattr(storage, "write", failing)
        with pytest.raises(hf.errors.ResourceExhaustedError, match="no space on this task"):
            saver.save(session, path, write_meta_graph=False)
        monkeypatch.undo()
        assert files_left(tmp_path) == ["checkpoint", "m.h5"]
        # The session goes on, and so does the next save.
        saver.save(session, path, write_meta_graph=False)
        variables["plain"].load(np.zeros((2, 2), np.float32), session)
        saver.restore(session, path)
        check(session, variables)


def test_a_checkpoint_that_fits_one_task_only_changes_none(cluster, tmp_path):
    spec, target = cluster(2)
    variables = build(spec, 2)
    path = str(tmp_path / "m")
    with hf.Session(target) as session:
        fill(session, variables)
        partial = {n: v for n, v in variables.items() if n in ("plain", "scalar")}
        hf.train.Saver(partial).save(session, path, write_meta_graph=False)
        session.run(hf.global_variables_initializer())
        with pytest.raises(hf.errors.NotFoundError, match="not found in checkpoint"):
            hf.train.Saver().restore(session, path)
        assert session.run(variables["scalar"]) == 0
        assert not session.run(variables["plain"]).any()


def test_graphs_without_devices_save_over_a_cluster(cluster, tmp_path):
    _, target = cluster(1)
    v = hf.Variable([1.0, 2.0], name="v")
    saver = hf.train.Saver()
    with hf.Session(target) as session:
        session.run(v.initializer)
        path = saver.save(session, str(tmp_path / "m"))
        session.run(v.assign([0.0, 0.0]))
        saver.restore(session, path)
        assert session.run(v).tolist() == [1, 2]
