"""What the doctor says of jobs that went wrong, by what launchers say and ranks see."""

from __future__ import annotations

import os

import pytest

from hpcflow.host import tuning
from hpcflow.tools import launch_check
from hpcflow.tools.launch_check import Attempt, launch_commands, offered_pmis, troubles


def rank(number, size=2, **changes):
    return {"rank": number, "size": size, "host": "n0", "cores": [0, 1, 2, 3], "machine": 4,
            "pid": number, "right": True, "library": "Open MPI v5.0.11", "cuda_aware": False,
            **changes}


def said_of(text="", status=1, ranks=(), wanted=2):
    return list(troubles(Attempt("mpirun", ["mpirun"], status, list(ranks), text), wanted))


def test_a_job_that_runs_has_no_troubles():
    assert said_of(status=0, ranks=[rank(0), rank(1)]) == []


@pytest.mark.parametrize(("text", "expected"), [
    ("There are not enough slots available in the system", "fewer slots than ranks"),
    ("mpirun has detected an attempt to run as root.", "refuses to run as root"),
    ("The PMIx server's listener thread failed to start. We cannot\ncontinue.", "the same process"),
    ("srun: error: Couldn't find the specified plugin name for mpi/pmix", "no plugin"),
    ("slurmstepd: error: mpi/pmix_v4: can not load PMIx library", "no plugin"),
    ("OMPI was not built with SLURM's PMI support", "built without this PMI"),
    ("srun: fatal: Could not establish a configuration source", "reaches no Slurm"),
    ("srun: error: Unable to contact slurm controller (connect failure)", "reaches no Slurm"),
    ("ModuleNotFoundError: No module named 'mpi4py'", "pip install"),
    ("RuntimeError: cannot load MPI library", "MPI library is not found"),
    ("something else\n-----", ("0 of 2 ranks met, and the launcher ended with status 1; it said: "
     "something else"))])
def test_what_launchers_say_is_told_in_plain_words(text, expected):
    (trouble,) = said_of(text)
    assert expected in trouble


def test_a_job_that_does_not_end():
    (trouble,) = said_of("waiting", status=None)
    assert "did not end" in trouble


@pytest.mark.parametrize(("ranks", "expected"), [
    ([rank(0, 1), rank(0, 1)], "each is a world of its own"),
    ([rank(0), rank(1, right=False)], "what they exchanged is wrong"),
    ([rank(0), rank(1, library="MPICH 4")], "several MPIs: MPICH 4, Open MPI"),
    ([rank(0, cores=[0]), rank(1, cores=[0])], "2 ranks on n0 share 1 cores"),
    ([rank(0, cores=[0]), rank(1, cores=[1])], "bound to one core")])
def test_what_ranks_see(ranks, expected):
    (trouble,) = said_of(status=0, ranks=ranks)
    assert expected in trouble


def fake(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_srun_is_tried_with_what_it_lists(tmp_path, monkeypatch):
    srun = fake(tmp_path, "srun", "echo 'MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"
                "specific pmix plugin versions available: pmix_v4'")
    assert offered_pmis(srun) == ["pmi2", "pmix"]
    monkeypatch.setenv("PATH", str(tmp_path))
    names = [name for name, _ in launch_commands(2)]
    assert names[-2:] == ["srun --mpi=pmi2", "srun --mpi=pmix"]


def test_srun_that_lists_nothing_is_tried_with_pmix(tmp_path):
    assert offered_pmis(fake(tmp_path, "srun", "exit 1")) == ["pmix"]


def test_a_job_that_stands_still_is_ended(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    stuck = fake(tmp_path, "stuck", f"trap '' TERM\necho $$ > {pids}\necho waiting\n"
                 "sleep 1000 & wait; sleep 1000")
    monkeypatch.setattr(tuning.programs, "LAUNCH_SECONDS", 3.0)
    monkeypatch.setattr(tuning.programs, "LAUNCH_GRACE_SECONDS", 0.2)
    monkeypatch.setattr(launch_check, "launch_commands", lambda n: [("stuck", [stuck])])
    (found,) = launch_check.check_launchers(2)
    assert found["status"] is None and "did not end within" in found["troubles"][0]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_a_launcher_that_fails_is_told(tmp_path, monkeypatch):
    failing = fake(tmp_path, "srun", "echo 'mpi/pmix: can not load PMIx library' >&2; exit 1")
    monkeypatch.setattr(launch_check, "launch_commands", lambda n: [("srun", [failing])])
    (found,) = launch_check.check_launchers(2)
    assert found["ranks"] == 0 and "no plugin for this PMI" in found["troubles"][0]
