"""Two ranks that exchange values of their GPUs: edges, and reductions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_ring.conftest import real_gpus
from gpu_ring.rank_program import run
from speed import patience

from hpcflow.tools import facts
from hpcflow.tools.gpu_check import exchange

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("size", "route"), [(100, "staged"), (1 << 19, "ipc"),
                                             (1 << 19, "shared"), (1 << 19, "staged"),
                                             (1 << 19, "mpi")])
def test_exchange(size: int, route: str) -> None:
    """Small values are staged, large ones go from GPU to GPU, or to memory that both ranks pin;
    values are right in every way, though the stand-in delays every copy."""
    if route == "mpi" and real_gpus():
        pytest.skip("whether MPI takes memory of GPUs is not known here")
    mpirun = facts.launchers()["mpirun"]
    if not mpirun:
        pytest.skip("no mpirun")
    folder = [] if real_gpus() else [str(REPO)]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": str(REPO)}
    if route != "ipc":
        environment["HPCFLOW_CUDA_IPC"] = "0"
    environment["HPCFLOW_CUDA_AWARE_MPI"] = "1" if route == "mpi" and not real_gpus() else ""
    if size > 100 and route in ("staged", "mpi"):  # as between nodes
        environment["HPCFLOW_SHARED_BYTES"] = "0"
    done = subprocess.run(
        [mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable,
         exchange.__file__, str(size), *folder], capture_output=True, text=True,
        env=environment, timeout=patience(), check=False)
    assert not done.returncode, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [r["name"] for r in rows if r.get("GB_per_s")].count("all-reduce") == 2
    last = next(r for r in rows if r["rank"] == 1 and "sent" in r)
    assert last["sent"] == {route: 12}
    assert sum(last["reduced"].values()) == 12 + 6
    ways = {r["name"]: r["way"] for r in rows if "way" in r}
    assert set(ways) == {"all-reduce", "collectives"}
    if not real_gpus():  # which may be several
        assert set(ways.values()) == {"ipc" if route == "ipc" else "staged"}


@pytest.mark.parametrize("opens", [True, False])
def test_exported_memory(opens: bool) -> None:
    """Memory of a GPU that another rank writes to is free once both have done with it; where it
    cannot be opened, values take another way, which is said once."""
    if real_gpus():
        pytest.skip("the stand-in says whether memory can be opened")
    done = run("exported.py", 2, STAND_IN_NO_IPC="" if opens else "1")
    output = done.stdout + done.stderr
    assert not done.returncode, output[-3000:]
    assert "stand-in: memory" not in output
    ends = re.findall(r"^rank (\d): 0 (.*)$", done.stdout, re.M)
    assert len(ends) == 2 and all(("'ipc'" in routes) == opens for _, routes in ends), output
    assert output.count("its memory cannot be opened here") == (0 if opens else 2)
