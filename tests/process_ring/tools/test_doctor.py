"""The doctor: its facts on this machine, and its warnings on machines made up here."""

from __future__ import annotations

import copy
import json
import os

import pytest

from hpcflow import config
from hpcflow.host import tuning
from hpcflow.tools import doctor, facts

HEALTHY = {
    "versions": {"hpcflow": "0"},
    "machine": {"AVX-512": True, "cores": 8, "cores allowed (cgroup)": None, "/dev/shm (MiB)": 999},
    "mpi": {
        "mpi4py": "4.1",
        "library": "Open MPI v5.0.11, package: some",
        "libraries": ["/usr/lib/libmpi.so.40"],
        "thread_level": "multiple",
        "mpirun": "/usr/bin/mpirun",
        "mpirun version": "mpirun (Open MPI) 5.0.11",
        "srun": None,
    },
    "hdf5": {"library": "2.0", "parallel": False},
    "blas": {"kernel": "SkylakeX"},
    "onednn": {"path": "/usr/lib/libdnnl.so"},
    "gpu": {"driver library": None, "cupy": None},
    "threads": {
        "cores of this process": list(range(8)),
        "ranks on this node": None,
        "OMP_NUM_THREADS": None,
    },
}


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    for name in facts.unknown_flags():
        monkeypatch.delenv(name)


def warnings_with(**changes):
    """The warnings of the healthy machine after changes given as ``section={fact: value}``."""
    found = copy.deepcopy(HEALTHY)
    for section, values in changes.items():
        found[section].update(values)
    return doctor.warnings(found)


def test_a_healthy_machine_has_no_warnings():
    assert warnings_with() == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mpi": {"mpi4py": None}}, "mpi4py is not installed"),
        ({"mpi": {"error": "cannot load MPI library"}}, "MPI does not start: cannot load"),
        ({"mpi": {"libraries": ["/a/libmpi.so", "/b/libmpi.so"]}}, "two MPI libraries"),
        ({"mpi": {"thread_level": "funneled"}}, "thread level 'funneled'"),
        ({"mpi": {"mpirun": None}}, "neither mpirun nor srun"),
        ({"mpi": {"mpirun version": "mpirun (Open MPI) 4.1.4"}}, "mpirun is of another MPI"),
        ({"hdf5": {"error": "no module"}}, "h5py does not load"),
        ({"blas": {"kernel": "Haswell"}}, "OPENBLAS_CORETYPE=SKYLAKEX"),
        ({"onednn": {"path": None}}, "oneDNN is not found"),
        ({"onednn": {"error": "wrong ELF", "found by": "wheel"}}, "does not load: wrong ELF"),
        ({"gpu": {"driver library": "libcuda.so.1"}}, "no CuPy"),
        ({"gpu": {"cupy": "14", "error": "no device"}}, "no usable GPU: no device"),
        ({"machine": {"cores allowed (cgroup)": 2.5}}, "set OMP_NUM_THREADS=2"),
        ({"machine": {"/dev/shm (MiB)": 64}}, "/dev/shm has 64 MiB"),
        ({"threads": {"OMP_NUM_THREADS": "16"}}, "may run on 8 cores"),
        ({"threads": {"ranks on this node": 4}}, "set OMP_NUM_THREADS=2"),
    ],
)
def test_each_trouble_has_its_warning(changes, expected):
    messages = warnings_with(**changes)
    assert len(messages) == 1
    assert expected in messages[0]


def test_a_narrow_kernel_is_no_trouble_on_a_narrow_processor():
    assert warnings_with(blas={"kernel": "Haswell"}, machine={"AVX-512": False}) == []


def test_a_misspelt_flag_is_named(monkeypatch):
    monkeypatch.setenv("HPCFLOW_COMPIL", "0")
    assert warnings_with() == [
        "HPCFLOW_COMPIL is set, but hpcflow has no such flag. Did you mean HPCFLOW_COMPILE?"
    ]


def test_running_as_root_is_named(monkeypatch):
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "refuses to run as root" in warnings_with()[0]


def test_the_report_of_this_machine(capsys):
    assert doctor.main([]) == 0
    text = capsys.readouterr().out
    for section in facts.COLLECTORS:
        assert f"\n{section}\n" in "\n" + text
    assert all(flag.name in text for flag in config.FLAGS)
    assert "warning" in text


def test_the_same_as_json(capsys):
    assert doctor.main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {*facts.COLLECTORS, "warnings"}
    assert found["versions"]["numpy"]
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["flags"]["HPCFLOW_COMPILE"]["default"] is True


def test_mpi_is_asked_in_a_world_of_its_own(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "5")
    monkeypatch.setenv("PMIX_NAMESPACE", "gone")
    assert not {"OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"} & set(facts.child_environment())
    found = facts.mpi()
    assert (found["started by"], found["ranks"]) == ("Open MPI", 5)
    if found["mpi4py"]:
        assert found["thread_level"] == "multiple"
        assert len(found["libraries"]) == 1


def test_a_probe_that_fails_is_a_fact(monkeypatch):
    assert facts.ask_child("raise OSError('libmpi.so: no such file')") == {
        "error": "OSError: libmpi.so: no such file"
    }
    assert facts.ask_child("import os; os._exit(7)") == {"error": "the probe ended with status 7"}
    monkeypatch.setattr(tuning.programs, "CHILD_SECONDS", 0.2)
    found = facts.ask_child("import time; time.sleep(60)")
    assert found["error"].startswith("no answer within")


def test_without_mpi4py_the_rest_is_reported(monkeypatch):
    monkeypatch.setattr(facts, "package_version", lambda name: None)
    assert facts.mpi()["mpi4py"] is None
    assert "error" not in facts.hdf5()


def test_values_are_readable():
    setting = {"value": True, "default": True, "set": False, "doc": "what it does"}
    assert doctor.render_value(setting) == "1 (default): what it does"
    assert doctor.render_value([0, 1]) == "0, 1"
    assert doctor.render_value(None) == doctor.render_value("") == "-"
    assert doctor.render_value(False) == "no"
