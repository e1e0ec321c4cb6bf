"""Saving in the background: of what was there when it began, complete or an error."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import storage

LONG = 60  # seconds that nothing here takes


class Brake:
    """Lets the writes of savers wait, and fail if an error is set."""

    def __init__(self, monkeypatch):
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.error = None
        real = storage.write

        def write(layout, pieces):
            self.reached.set()
            assert self.go_on.wait(LONG)
            if self.error is not None:
                raise self.error
            return real(layout, pieces)

        monkeypatch.setattr(storage, "write", write)


@pytest.fixture
def brake(monkeypatch):
    return Brake(monkeypatch)


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as g:
        yield g


def model():
    """Variables of several kinds, one of a shape that is known at run time only."""
    variable = hf.get_variable("w", initializer=np.zeros((3, 2), np.float32))
    hf.get_variable("resource", initializer=np.zeros(3), use_resource=True)
    hf.Variable(np.zeros(2), name="open", validate_shape=False,
                expected_shape=hf.TensorShape(None))
    hf.Variable("text", name="text")
    add = [hf.assign_add(variable, np.ones((3, 2), np.float32)),
           hf.global_variables()[1].assign_add(np.ones(3))]
    return variable, add


def values_in(path):
    with storage.open_checkpoint(path) as reader:
        return {name: reader.read(name) for name in reader.names()}


def test_what_was_held_is_written_while_training_goes_on(tmp_path, brake):
    _, add = model()
    saver = hf.train.Saver(async_save=True)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"), 1)
        assert path == str(tmp_path / "m-1") and brake.reached.wait(LONG)
        for _ in range(3):
            session.run(add)
        assert hf.train.latest_checkpoint(str(tmp_path)) is None
        assert not storage.checkpoint_exists(path)
        brake.go_on.set()
        saver.join()
        assert hf.train.latest_checkpoint(str(tmp_path)) == path
        found = values_in(path)
        assert not found["w"].any() and not found["resource"].any() and found["text"] == b"text"
        assert found["open"].shape == (2,)
        assert os.path.exists(path + ".meta")
        second = saver.save(session, str(tmp_path / "m"), 2)
        saver.restore(session, second)  # waits for it
        assert session.run("w:0").tolist() == [[3, 3]] * 3


def test_a_failure_is_raised_once_by_what_follows(tmp_path, brake):
    model()
    saver = hf.train.Saver(async_save=True)
    brake.go_on.set()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"), 1)
        saver.join()
        before = sorted(os.listdir(tmp_path))
        brake.error = hf.errors.ResourceExhaustedError(None, None, "no space")
        saver.save(session, str(tmp_path / "m"), 2)
        with pytest.raises(hf.errors.ResourceExhaustedError, match="no space"):
            saver.save(session, str(tmp_path / "m"), 3)
        assert hf.train.latest_checkpoint(str(tmp_path)) == path
        assert sorted(os.listdir(tmp_path)) == before
        saver.save(session, str(tmp_path / "missing/below/m"), write_state=False)
        with pytest.raises(ValueError, match="Parent directory"):
            saver.join()
        brake.error = None
        saver.join()
        assert saver.save(session, str(tmp_path / "m"), 4) == str(tmp_path / "m-4")
    assert hf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m-4")


def test_an_uninitialized_variable_fails_at_once(tmp_path):
    model()
    saver = hf.train.Saver(async_save=True)
    with hf.Session() as session, pytest.raises(hf.errors.FailedPreconditionError):
        saver.save(session, str(tmp_path / "m"))
    assert not os.listdir(tmp_path)
    with storage.DirectoryLock(str(tmp_path)):  # nobody holds it
        pass


def test_a_session_that_closes_completes_it_or_says_why(tmp_path, brake):
    model()
    saver = hf.train.Saver(async_save=True)
    session = hf.Session()
    session.run(hf.global_variables_initializer())
    path = saver.save(session, str(tmp_path / "m"))
    brake.go_on.set()
    session.close()
    assert hf.train.latest_checkpoint(str(tmp_path)) == path
    session = hf.Session()
    session.run(hf.global_variables_initializer())
    brake.error = hf.errors.DataLossError(None, None, "a bad disk")
    saver.save(session, str(tmp_path / "m"))
    with pytest.raises(hf.errors.DataLossError, match="a bad disk"):
        session.close()
    with pytest.raises(RuntimeError, match="closed"):
        session.run("w:0")


PROGRAM = """
import sys, time
import hpcflow as hf
from hpcflow import storage
hf.Variable(1.0)
saver = hf.train.Saver(async_save=True)
session = hf.Session()
session.run(hf.global_variables_initializer())
real = storage.write
def slow(layout, pieces):
    time.sleep(0.5)
    return real(layout, pieces)
storage.write = slow
saver.save(session, sys.argv[1])
sys.exit(3)
"""


def test_a_program_that_ends_completes_it(tmp_path):
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "m"], check=False)
    assert done.returncode == 3
    assert hf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "m.h5", "m.meta"]


def test_savers_of_meta_graphs(tmp_path):
    model()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        first = hf.train.Saver().save(session, str(tmp_path / "m"))
    with hf.Graph().as_default(), hf.Session() as session:
        saver = hf.train.import_meta_graph(first + ".meta", import_scope="within")
        saver.restore(session, first)
        saver._async_save = True
        path = saver.save(session, str(tmp_path / "n"))
        assert saver._background is not None
    assert values_in(path).keys() == values_in(first).keys()


def monitored(tmp_path, **kwargs):
    step = hf.train.get_or_create_global_step()
    hook = hf.train.CheckpointSaverHook(str(tmp_path), save_steps=2, **kwargs)
    train = step.assign_add(1)
    return train, hf.train.SingularMonitoredSession(hooks=[hook])


def test_hooks_save_in_the_background(tmp_path, brake):
    hf.train.get_or_create_global_step()
    train, session = monitored(tmp_path, saver=hf.train.Saver())
    for _ in range(2):  # the first save waits all the time; so would a second one
        session.run(train)
        if not brake.go_on.is_set():
            assert brake.reached.wait(LONG)
            assert not (tmp_path / "checkpoint").exists()
            brake.go_on.set()
            # What reads it here waits until it is there.
            assert hf.train.latest_checkpoint(str(tmp_path)) is not None
    session.close()
    latest = hf.train.latest_checkpoint(str(tmp_path))
    assert values_in(latest)["global_step"] == 2


def test_a_step_raises_what_the_save_before_failed_with(tmp_path, brake):
    hf.train.get_or_create_global_step()
    saver = hf.train.Saver()
    train, session = monitored(tmp_path, saver=saver)
    brake.error = hf.errors.ResourceExhaustedError(None, None, "no space")
    brake.go_on.set()
    saver._background._thread.join()
    with pytest.raises(hf.errors.ResourceExhaustedError, match="no space"):
        session.run(train)


def test_listeners_find_it_complete(tmp_path):
    found = []

    class Listener(hf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            path = hf.train.latest_checkpoint(str(tmp_path))
            found.append((global_step_value, int(values_in(path)["global_step"])))

    hf.train.get_or_create_global_step()
    train, session = monitored(tmp_path, saver=hf.train.Saver(), listeners=[Listener()])
    for _ in range(3):
        session.run(train)
    session.close()
    assert found and all(told == stored for told, stored in found)


def test_every_task_writes_what_it_holds(tmp_path, brake):
    spec = hf.train.ClusterSpec({"ps": ["a", "b"], "worker": ["c"]})
    servers = [hf.train.Server(spec, job, index)
               for job in spec.jobs for index in spec.task_indices(job)]
    with hf.device(hf.train.replica_device_setter(cluster=spec)):
        variable = hf.get_variable("table", (11, 3), initializer=hf.zeros_initializer(),
                                   partitioner=hf.fixed_size_partitioner(2))
        add = [part.assign_add(hf.ones_like(part)) for part in variable]
    saver = hf.train.Saver(async_save=True)
    try:
        with hf.Session(servers[-1].target) as session:
            session.run(hf.global_variables_initializer())
            path = saver.save(session, str(tmp_path / "m"))
            assert brake.reached.wait(LONG)
            session.run(add)
            brake.go_on.set()
        assert not values_in(path)["table"].any()
    finally:
        for server in servers:
            server._server.close()
