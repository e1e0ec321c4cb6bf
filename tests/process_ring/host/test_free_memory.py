"""Large arrays for which there is no memory are an error of the operation, before they are made."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.host import free_memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Writes the files that the system would have, below a folder."""
    monkeypatch.setattr(free_memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(free_memory, "_GROUPS", tmp_path / "cgroup")

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    return write


def test_a_machine_that_does_not_tell(machine):
    assert free_memory.available() is None
    free_memory.require(1 << 60)


def test_a_machine_without_groups(machine):
    machine("proc/meminfo", "MemTotal: 99 kB\nMemAvailable:  2048 kB\nSwapFree: 1024 kB\n")
    assert free_memory.available() == 3 << 20


@pytest.mark.parametrize("visible", ["job/step", ""])
def test_groups_of_the_second_version(machine, visible):
    """The narrowest limit counts, also where a container shows only its own folder."""
    machine("proc/meminfo", "MemAvailable: 99999999 kB\n")
    machine("proc/self/cgroup", "0::/job/step\n")
    machine("cgroup/job/memory.max", "max\n")
    machine("cgroup/job/memory.current", "5\n")
    machine(f"cgroup/{visible}/memory.max", f"{8 * GIB}\n")
    machine(f"cgroup/{visible}/memory.current", f"{6 * GIB}\n")
    machine(f"cgroup/{visible}/memory.stat", f"anon 1\ninactive_file {GIB}\n")
    assert free_memory.available() == 3 * GIB


def test_groups_of_the_first_version(machine):
    machine("proc/meminfo", "MemAvailable: 99999999 kB\n")
    machine("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/slurm/job\n0::/\n")
    machine("cgroup/memory/slurm/memory.limit_in_bytes", f"{4 * GIB}\n")
    machine("cgroup/memory/slurm/memory.usage_in_bytes", f"{3 * GIB}\n")
    machine("cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712\n")
    machine("cgroup/memory/slurm/job/memory.usage_in_bytes", f"{3 * GIB}\n")
    assert free_memory.available() == GIB


SIDE = 1 << 14
COLUMN = np.ones((SIDE, 1), np.float32)


def large(column, dims):
    """name -> a tensor of 1 GiB, whose shape the graph says or the program gives."""
    return {
        "zeros": hf.zeros([SIDE, SIDE]), "filled": hf.fill(dims, 1.0),
        "random": hf.random_uniform(dims), "tiled": hf.tile(column, dims // dims[0] * [1, SIDE]),
        "product": hf.matmul(column, column, transpose_b=True),
        "sum": column + hf.transpose(column),
        "range": hf.range(SIDE * hf.size(hf.zeros(dims[:1]))),
        "variable": hf.get_variable("v", [SIDE, SIDE]).initializer,
    }


@pytest.mark.parametrize("name", ["zeros", "filled", "random", "tiled", "product", "sum", "range",
                                  "variable"])
def test_what_does_not_fit_is_named(session, monkeypatch, name):
    monkeypatch.setattr(free_memory, "available", lambda: GIB // 2)
    column, dims = hf.placeholder(hf.float32, [SIDE, 1]), hf.placeholder(hf.int32, [2])
    wanted = large(column, dims)[name]
    with pytest.raises(hf.errors.ResourceExhaustedError,
                       match=rf"an array of \d+ bytes, of which {GIB // 2} are available"):
        session.run(wanted.op if name != "variable" else wanted,
                    {column: COLUMN, dims: [SIDE, SIDE]})


def test_nobody_is_asked_if_the_user_says_so(monkeypatch):
    monkeypatch.setattr(free_memory, "available", lambda: 0)
    monkeypatch.setattr(config.flags, "check_memory", False)
    free_memory.require(1 << 40)
