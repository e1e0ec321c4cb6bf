"""Restarts: how an end is classified, when a job is started again, and on what."""

from __future__ import annotations

import re
import signal
import socket

import pytest

from hpcflow.tools.restarts import (
    Attempt,
    How,
    Place,
    Restarts,
    avoiding,
    gone_nodes,
    progress_file,
    restart_count,
    servers_of,
)

HERE = socket.gethostname()
SILENT = {"host": HERE}
KNEW = {"host": HERE, "ended": True, "code": 1, "lost": [1]}


def note(code):
    return {"host": HERE, "ended": True, "code": code, "lost": []}


SRUN_CODE = "srun: error: n1: task 1: Exited with exit code 3\nsrun: error: n1: task 0: Terminated"
SRUN_KILL = "srun: error: n1: tasks 1-2: Killed\nsrun: error: n1: task 0: Exited with exit code 9"


@pytest.mark.parametrize(("status", "notes", "said", "told", "how"), [
    (0, [note(0), note(0)], "", (), How.WELL),
    (137, [SILENT, SILENT], "rank 1 exited on signal 9 (Killed).", (), How.LOST),
    (137, [note(17), SILENT], "rank 1 exited on signal 9", (), How.LOST),  # a handler of SIGTERM
    (1, [note(1), SILENT], "MPI_ABORT was invoked on rank 0", (), How.FAILED),
    (1, [KNEW, SILENT], "MPI_ABORT was invoked on rank 0", (), How.LOST),
    (1, [KNEW, KNEW, SILENT], "", (), How.LOST),
    (1, [KNEW, note(2)], "", (), How.FAILED),
    (3, [SILENT, SILENT], "Process name: [x,1] Exit code: 3", (), How.FAILED),
    (1, [SILENT, SILENT], "PRTE has lost communication with a remote daemon", (), How.LOST),
    (143, [SILENT, note(3)], SRUN_CODE, (), How.FAILED),
    (143, [SILENT, SILENT], SRUN_CODE, (), How.FAILED),
    (137, [note(9), SILENT, SILENT], SRUN_KILL, (), How.LOST),
    (0, [SILENT, note(0)], "", (), How.FAILED),
    (75, [note(0), note(75)], "", (), How.PREEMPTED),
    (75, [SILENT, note(75)], "Exit code: 75", (), How.PREEMPTED),
    (137, [SILENT, note(75)], "exited on signal 9", (), How.LOST),
    (143, [SILENT, SILENT], "", (signal.SIGTERM,), How.ENDED),
    (138, [SILENT, SILENT], "", (signal.SIGUSR1,), How.ENDED),
    (137, [SILENT, SILENT], "", (signal.SIGUSR1,), How.LOST)])
def test_how_a_start_ended(status, notes, said, told, how):
    assert Attempt(status, notes, said, frozenset(told)).how() is how


def test_a_rank_that_the_launcher_did_not_miss():
    assert Attempt(0, [SILENT], "", frozenset(), True).how() is How.LOST
    assert Attempt(0, [note(3), SILENT], "", frozenset(), True).how() is How.FAILED


class Fake:
    """Jobs that end as they are told to."""

    def __init__(self, tmp_path, ends, **options):
        self.ends = list(ends)
        self.places = []
        values = {"ranks": 4, "servers": 0, "most": 9, "least": 4, "launcher": "mpirun"} | options
        self.restarts = Restarts(self, folder=tmp_path, **values)

    def __call__(self, place):
        self.places.append(place)
        self.status, self.saved, self.notes = self.ends.pop(0)
        place.folder.mkdir(exist_ok=True)
        progress_file(place.folder).write_text("".join(f"{p}\n" for p in self.saved))
        return self

    def run(self):
        return self.status

    def attempt(self):
        return Attempt(self.status, self.notes, "", frozenset())


KILLED = (137, (), [SILENT] * 4)


def test_it_goes_on_while_something_is_saved(tmp_path, capsys):
    ends = [(137, (f"m-{n // 3}",), [SILENT] * 4) for n in range(9)] + [(0, (), [note(0)] * 4)]
    fake = Fake(tmp_path, ends)
    assert fake.restarts.run() == 0
    assert [p.number for p in fake.places] == list(range(10))
    assert {p.ranks for p in fake.places} == {4}
    assert "restart 9 of 9 on 4 ranks" in capsys.readouterr().err


def test_it_ends_where_nothing_new_is_saved(tmp_path, capsys):
    fake = Fake(tmp_path, [(137, ("m-3",), [SILENT] * 4)] * 20, most=99)
    assert fake.restarts.run() == 137 and len(fake.places) == 5
    assert "saved nothing new" in capsys.readouterr().err


def test_a_path_without_a_step_is_progress(tmp_path):
    fake = Fake(tmp_path, [(137, ("model",), [SILENT] * 4)] * 8, most=7)
    assert fake.restarts.run() == 137 and len(fake.places) == 8


def test_fewer_ranks_where_the_same_number_did_not_help(tmp_path):
    fake = Fake(tmp_path, [KILLED] * 9, servers=2, least=3)
    fake.restarts.run()
    assert [(p.ranks, p.servers) for p in fake.places] == [(4, 2), (4, 2), (3, 1), (3, 1)]


@pytest.mark.parametrize("status", [1, 3])
def test_what_the_program_does_is_not_done_again(tmp_path, status):
    fake = Fake(tmp_path, [(status, (), [SILENT, note(status)])])
    assert fake.restarts.run() == status


def test_a_job_that_never_began_is_not_started_again(tmp_path):
    fake = Fake(tmp_path, [(1, (), [{}, {}, {}, {}])])
    assert fake.restarts.run() == 1


@pytest.mark.parametrize("inside", [False, True])
def test_preempted(tmp_path, monkeypatch, inside):
    if inside:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    else:
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    ends = [(75, (), [note(75)] * 4), (0, (), [note(0)] * 4)]
    assert Fake(tmp_path, ends).restarts.run() == (75 if inside else 0)


def program(tmp_path, name, text):
    (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
    (tmp_path / name).chmod(0o755)
    return str(tmp_path / name)


def test_nodes_that_are_gone_in_slurm(tmp_path, monkeypatch, capsys):
    program(tmp_path, "sinfo", "echo n1 idle; echo n2 down*; echo n3 allocated; echo n4 mixed*")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert gone_nodes("/bin/srun", [HERE, "n1", "n2.x.org", "n3", "n4"]) == {"n2.x.org", "n4"}
    hosts = [{"host": f"n{i}"} for i in (1, 1, 2, 2, 3, 3)]
    ends = [(137, ("m-1",), hosts), (0, (), [note(0)])]
    fake = Fake(tmp_path, ends, ranks=6, servers=2, least=3, launcher="/bin/srun")
    assert fake.restarts.run() == 0
    second = fake.places[1]
    assert (second.ranks, second.servers, second.gone) == (4, 1, {"n2"})
    assert avoiding("/bin/srun", second) == ["--exclude=n2"]
    assert avoiding("/bin/mpirun", second) == ["--host", "n1:2,n3:2"]
    fake = Fake(tmp_path, ends[:1], ranks=6, least=5, launcher="/bin/srun")
    assert fake.restarts.run() == 137
    assert re.search("4 ranks are left, fewer than --min-ranks 5", capsys.readouterr().err)


def test_nodes_that_do_not_answer_mpirun(tmp_path):
    mpirun = program(tmp_path, "mpirun", 'test "$4" = n1')
    assert gone_nodes(mpirun, ["n1", "n2", HERE]) == {"n2"}


def test_servers_and_counts():
    assert [servers_of(n, 2, 8) for n in (8, 7, 4, 2)] == [2, 1, 1, 1]
    assert servers_of(5, 0, 8) == 0 and servers_of(2, 3, 4) == 1
    assert restart_count(2, {}) == 2
    assert restart_count(2, {"SLURM_RESTART_COUNT": "3"}) == 5
    assert restart_count(0, {"HPCFLOW_RESTART_COUNT": "4", "SLURM_RESTART_COUNT": "3"}) == 4


def test_a_place_that_avoids_nothing():
    place = Place(4, 0, 0, frozenset(), {}, None)
    assert avoiding("/bin/srun", place) == avoiding("/bin/mpirun", place) == []
