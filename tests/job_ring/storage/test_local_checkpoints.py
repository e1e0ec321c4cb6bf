"""Checkpoints on the storage of the nodes: each task's folder stands for that of a node."""

from __future__ import annotations

import re
import shutil

import pytest
from jobs import run_job

import hpcflow as hf

SERVED = """
    import os, signal, sys, time
    import numpy as np
    import hpcflow as hf
    task = hf.mpi.task(jobs={{"ps": {servers}}})
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        server.join()
        sys.exit()
    with hf.device(hf.train.replica_device_setter(
            cluster=task.cluster, worker_device=f"/job:worker/task:{{task.index}}")):
        step = hf.train.get_or_create_global_step()
        table = hf.get_variable("table", [1000, 3], initializer=hf.zeros_initializer(),
                                partitioner=hf.fixed_size_partitioner(3))
        words = hf.get_variable("words", initializer=hf.constant(["a", "b"]))
        rows = hf.constant(np.arange(3000, dtype=np.float32).reshape(1000, 3))
        first = hf.assign_add(step, 1)
        with hf.control_dependencies([first]):
            at = hf.cast(step.read_value(), hf.float32)
            begin, updates = 0, []
            for part in table:
                end = begin + part.get_shape()[0].value
                updates.append(part.assign(rows[begin:end] + at))
                begin = end
            train = hf.group(*updates)
        whole = hf.concat(list(table), 0)
    with hf.train.MonitoredTrainingSession(
            server.target, task.index == 0, {directory!r}, save_checkpoint_steps=5,
            hooks=[hf.train.StopAtStepHook(last_step={last})]) as session:
        if task.index == 0:
            n, found, w = session.run([step, whole, words])
            right = n == 0 or np.array_equal(
                found, np.arange(3000, dtype=np.float32).reshape(1000, 3) + n)
            print("begin", n, right and list(w) == [b"a", b"b"], flush=True)
        while not session.should_stop() and task.index == 0:
            session.run(train)
            if not session.should_stop() and session.run(step) == {kill}:
                # The shared one is written in the background.
                while int((hf.train.latest_checkpoint({directory!r}) or "-0")
                          .rpartition("-")[2]) < 20:
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
"""


def job(tmp_path, ranks, servers, kill, last=100):
    """What the chief begins with."""
    directory = str(tmp_path / "shared")
    ended = run_job(tmp_path, [SERVED.format(servers=servers, kill=kill, last=last,
                                             directory=directory)], ranks,
                    HPCFLOW_LOCAL_CHECKPOINTS=str(tmp_path / "nodes"),
                    HPCFLOW_SHARED_CHECKPOINT_EVERY="4")
    assert (ended.status != 0) == (kill > 0), ended.output
    return re.search(r"begin (\d+) (\w+)", ended.output).groups(), ended.output


@pytest.mark.parametrize(("lost", "servers"), [("", 2), ("ps-0", 2), ("ps-1", 1)])
def test_a_job_goes_on_from_the_newest_of_the_nodes(tmp_path, lost, servers):
    assert job(tmp_path, 4, 2, kill=38)[0] == ("0", "True")
    assert hf.train.latest_checkpoint(str(tmp_path / "shared")).endswith("-20")
    [root] = (tmp_path / "nodes").iterdir()
    assert sorted(p.name for p in root.iterdir()) == ["ps-0", "ps-1", "worker-0", "worker-1"]
    if lost:
        shutil.rmtree(root / lost)
    begin, output = job(tmp_path, 3, servers, kill=0, last=40)
    assert begin == ("35", "True"), output
    assert hf.train.latest_checkpoint(str(tmp_path / "shared")).endswith("-40")
    assert hf.train.NewCheckpointReader(str(tmp_path / "shared" / "model.ckpt-35")).get_tensor(
        "table").shape == (1000, 3)
    assert not [p for p in (tmp_path / "shared").iterdir() if p.name.startswith(".model")]


def test_without_part_and_copy_the_shared_one_is_taken(tmp_path):
    job(tmp_path, 4, 2, kill=38)
    [root] = (tmp_path / "nodes").iterdir()
    shutil.rmtree(root / "ps-0")
    shutil.rmtree(root / "ps-1")
    assert job(tmp_path, 3, 2, kill=0, last=40)[0] == ("20", "True")


def test_without_a_nodes_storage_checkpoints_are_shared(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / ".local-checkpoints").write_text("name")
    (tmp_path / "nodes" / "name").mkdir(parents=True)
    (tmp_path / "nodes" / "name" / "ps-1").touch()  # no folder can be made
    assert "could not be saved on the nodes" in job(tmp_path, 4, 2, kill=42)[1]
    # The save of step 40 waits for that of step 35, and may be under way when the chief is lost.
    latest = hf.train.latest_checkpoint(str(tmp_path / "shared")).rpartition("-")[2]
    assert latest in ("35", "40")
    assert [p.name for p in tmp_path.glob("nodes/**/*") if p.is_file()] == ["ps-1"]
    assert job(tmp_path, 3, 2, kill=0, last=50)[0] == (latest, "True")


def test_a_damaged_part_is_passed_over(tmp_path):
    job(tmp_path, 4, 2, kill=38)
    for part in tmp_path.glob("nodes/*/*/model.ckpt-35.part-00000*"):
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 255
        part.write_bytes(data)
    begin, output = job(tmp_path, 3, 2, kill=0, last=40)
    assert begin[1] == "True" and int(begin[0]) in (20, 30), output


def test_a_new_directory_does_not_take_what_belongs_to_an_old_one(tmp_path):
    job(tmp_path, 4, 2, kill=38)
    shutil.rmtree(tmp_path / "shared")
    assert job(tmp_path, 3, 2, kill=0, last=3)[0] == ("0", "True")


AVERAGED = """
    import os, signal
    import numpy as np
    import hpcflow as hf
    rank = hf.mpi.rank()
    step = hf.train.get_or_create_global_step()
    w = hf.get_variable("w", initializer=np.zeros(1000, np.float32))
    moved = w.assign_add(hf.mpi.allreduce(hf.ones([1000])))
    with hf.control_dependencies([moved]):
        train = hf.assign_add(step, 1)
    with hf.train.MonitoredTrainingSession(
            checkpoint_dir={directory!r} if rank == 0 else None, save_checkpoint_steps=5,
            hooks=[hf.mpi.BroadcastVariablesHook(0),
                   hf.train.StopAtStepHook(last_step={last})]) as session:
        n, found = session.run([step, w])
        print("begin", n, n == 0 or len(set(found)) == 1, flush=True)
        while not session.should_stop():
            if session.run(train) == {kill} and rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("lost", ["rank-0", "rank-1"])
def test_averaged_gradients_have_a_copy_on_another_rank(tmp_path, lost):
    directory = str(tmp_path / "shared")
    begun = []
    for ranks, kill in ((3, 38), (2, 0)):
        ended = run_job(tmp_path, [AVERAGED.format(kill=kill, last=40, directory=directory)], ranks,
                        HPCFLOW_LOCAL_CHECKPOINTS=str(tmp_path / "nodes"),
                        HPCFLOW_SHARED_CHECKPOINT_EVERY="4")
        begun += re.findall(r"begin (\d+) (\w+)", ended.output)
        [root] = (tmp_path / "nodes").iterdir()
        assert sorted(p.name for p in root.iterdir()) == ["rank-0", "rank-1"], ended.output
        shutil.rmtree(root / lost)
    assert ended.status == 0, ended.output
    assert begun == [("0", "True")] * 3 + [("35", "True")] * 2, begun
    assert hf.train.latest_checkpoint(directory).endswith("-40")
