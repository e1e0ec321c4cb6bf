"""The page of conventions: what it says of other tools' habits is true of hpcflow."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import config
from hpcflow.tools.cli import COMMANDS, command_module

ROOT = Path(__file__).resolve().parents[3]
ROWS = re.findall(r"^\| (\w+) \| (.+?) \| (.+) \|$", (ROOT / "docs" / "conventions.md").read_text(),
                  re.MULTILINE)
PROGRAM = """
import json, os, sys
import numpy as np
from mpi4py import MPI
import hpcflow as hf

if len(sys.argv) > 1:
    import tensorflow_that_is_not_there

world = MPI.COMM_WORLD
rank, size = hf.mpi.rank(), hf.mpi.size()
part = world.Split(rank)
alone = hf.mpi.task(comm=part)
rows = hf.IndexedSlices(hf.ones([1, 2]), [rank], [4, 2])
v = hf.get_variable("v", [2], initializer=hf.constant_initializer(rank + 1.0))
inner = hf.train.GradientDescentOptimizer(1.0)
optimizer = hf.mpi.DistributedOptimizer(inner, bucket_bytes=1 << 20)
train = optimizer.minimize(hf.reduce_sum(v) * rank)
x = hf.constant([1.0 + rank] * size)
ops = [hf.mpi.allreduce(x), hf.mpi.allgather(x), hf.mpi.broadcast(x, 1), hf.mpi.alltoall(x),
       hf.mpi.reduce_scatter(x), hf.gradients(hf.mpi.allreduce(x), x)[0]]
sparse = hf.mpi.allreduce(rows)
with hf.Session() as session:
    session.run(hf.global_variables_initializer())
    session.run(hf.mpi.broadcast_variables(0))
    begun = session.run(v)
    request = world.irecv(source=1 - rank, tag=0)  # of the program, while hpcflow has its own
    world.isend(f"from {rank}", 1 - rank, 0)
    session.run(train)
    print(json.dumps({
        "rank": [rank, size, hf.mpi.local_rank(), hf.mpi.local_size()], "got": request.wait(),
        "begun": begun.tolist(), "trained": session.run(v).tolist(),
        "ops": [value.tolist() for value in session.run(ops)],
        "sparse": [sorted(session.run(sparse.indices).tolist()),
                   isinstance(sparse, hf.IndexedSlices)],
        "alone": alone.cluster.num_tasks(alone.job), "threads": os.environ["OMP_NUM_THREADS"]}))
"""
RUN = [sys.executable, "-m", "hpcflow", "run", "-n", "2"]


def job(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mpi4py")
    (folder / "train.py").write_text(PROGRAM)
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    return subprocess.run([*RUN, "--logs", "logs", "--follow", "all", *arguments], cwd=folder,
                          text=True, capture_output=True, timeout=patience(240), check=False,
                          env=env | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"})


def test_there_are_27_rows_and_their_names_are_there() -> None:
    assert len(ROWS) == 27
    text = " ".join(ours for _, _, ours in ROWS)
    for name in re.findall(r"`hf\.([\w.]+)", text):
        found = hf
        for part in name.split("."):
            found = getattr(found, part)
    known = {flag.name for flag in config.FLAGS}
    assert set(re.findall(r"`(HPCFLOW_\w+)`", text)) <= known
    for command in re.findall(r"`hpcflow (\w+)", text):
        assert command in COMMANDS
    options = command_module("run").parser().format_help()
    assert all(option in options for option in re.findall(r"`(--\w+)", text))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("program", [["train.py"], ["-m", "train"]])
def test_two_ranks(tmp_path, program) -> None:
    done = job(tmp_path, *program)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [json.loads(line.partition("] ")[2]) for line in sorted(done.stdout.splitlines())]
    share = str(max(1, (os.cpu_count() or 1) // 2))
    for rank, told in enumerate(said):
        assert told["rank"] == [rank, 2, rank, 2] and told["got"] == f"from {1 - rank}"
        assert told["begun"] == [1, 1] and told["trained"] == [0.5, 0.5]
        assert told["ops"] == [[3, 3], [1, 1, 2, 2], [2, 2], [1, 2], [3], [2, 2]]
        assert told["sparse"] == [[0, 1], True] and told["alone"] == 1
        assert told["threads"] == share
        assert json.loads((tmp_path / "logs" / f"rank{rank}.log").read_text()) == told


@pytest.mark.timeout(240)
def test_a_failing_rank_ends_the_job_and_its_error_stands_at_the_end(tmp_path) -> None:
    done = job(tmp_path, "train.py", "fail")
    assert done.returncode != 0
    assert "tensorflow_that_is_not_there" in done.stderr.splitlines()[-1]


def test_a_process_without_a_launcher_is_rank_0_and_leaves_mpi_alone() -> None:
    program = ("import sys, hpcflow as hf; "
               "print(hf.mpi.rank(), hf.mpi.size(), 'mpi4py.MPI' in sys.modules)")
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "0 1 False\n"


def test_one_process_has_what_the_others_have(tmp_path, graph) -> None:
    v = hf.get_variable("layer/weights", [2, 2])
    with pytest.raises(TypeError, match="no value yet"):
        np.asarray(v + 1)
    x = hf.placeholder(hf.float32, [])
    root, checks = hf.log(x), hf.add_check_numerics_ops()
    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 4})) as session:
        assert len([d for d in session.list_devices() if d.device_type == "CPU"]) == 4
        session.run(v.initializer)
        session.run([root, checks], {x: 1.0})
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"(?i)nan|number"):
            session.run([root, checks], {x: -1.0})
        path = hf.train.Saver([v]).save(session, str(tmp_path / "model"), 1)
        value = session.run(v)
    with h5py.File(f"{path}.h5") as file:
        np.testing.assert_array_equal(file["variables"]["layer|weights"][...], value)
    if shutil.which("h5ls"):
        assert "variables" in subprocess.check_output(["h5ls", f"{path}.h5"], text=True)
