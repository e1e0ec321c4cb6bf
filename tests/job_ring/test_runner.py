"""The runner of the tests itself: one that dies or hangs costs itself alone, and is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import run as runner
from processes import run_limited

TESTS = Path(runner.__file__).parent
INI = """
[pytest]
addopts = --import-mode=importlib --timeout 60 -p no:cacheprovider
pythonpath = {tests}
"""
BAD = {
    "exits": "os._exit(3)",
    "is_killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "ctypes.string_at(0)",
    "works_for_ever": "while True: pass",
    "works_for_ever_in_c": "pattern.match('a' * 80)",
    "sleeps_for_ever": "threading.Event().wait()",
    "sleeps_for_ever_in_c": "ctypes.PyDLL(None).pause()",
}
HEAD = """
import ctypes, os, re, signal, threading
import pytest

pattern = re.compile("(a|aa)+b")
"""
TEMPLATE = """
@pytest.mark.timeout(0.3)
def test_{name}():
    {body}
"""


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """A ring in a folder of its own, with the rules of all rings."""
    folder = tmp_path / "bad_ring"
    folder.mkdir()
    (folder / "pytest.ini").write_text(INI.format(tests=TESTS))
    shutil.copy(TESTS / "conftest.py", folder)
    monkeypatch.setitem(runner.RINGS, "bad", runner.Ring([folder], 100.0, "worksteal"))
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    return folder


def run_ring(*options: str) -> tuple[runner.Outcome, str]:
    run = runner.Run("bad")
    outcome = runner.execute(run, runner.parse_arguments([*options]))
    return outcome, (run.directory / "run.log").read_text()


def test_what_dies_or_hangs_costs_itself_alone(ring):
    bad = [TEMPLATE.format(name=name, body=body) for name, body in BAD.items()]
    good = [f"@pytest.mark.parametrize('i', range(10))\ndef test_good_{name}(i): pass\n"
            for name in BAD]
    text = "\n".join(part for pair in zip(bad, good) for part in pair)
    (ring / "test_bad.py").write_text(HEAD + text)
    (ring / "test_other.py").write_text("def test_other(): pass\n")
    outcome, log = run_ring("-n", "2")
    assert outcome.counts == {"passed": 10 * len(BAD) + 1, "failed": len(BAD)}, log
    for name in BAD:
        test = f"bad_ring/test_bad.py::test_{name}"
        assert f"failed: {test}" in outcome.problems
        assert f"crashed while running '{test}'" in log
        if name not in ("exits", "is_killed"):  # which nothing survives
            assert f"in test_{name}\n" in log  # a line of its stack
    assert len(outcome.tests) == 11 * len(BAD) + 1


def test_files_of_one_name_lie_in_several_rooms(ring):
    for room, outcome in (("one", "pass"), ("two", "assert False"), ("one/inner", "pass")):
        (ring / room).mkdir()
        (ring / room / "test_same.py").write_text(f"def test_it(): {outcome}\n")
    found, log = run_ring("-n", "2")
    assert found.counts == {"passed": 2, "failed": 1}, log
    assert runner.Run("bad", rooms=("inner",)).places == [ring / "one" / "inner"]
    assert [run.rooms for run in runner.plan(runner.parse_arguments(
        ["--room", "two", "--room", "inner"]))] == [("two", "inner")]
    with pytest.raises(SystemExit, match="no folder of tests is called three"):
        runner.plan(runner.parse_arguments(["--room", "three"]))


@pytest.mark.parametrize("program", ["while true; do :; done", "sleep 1000"])
def test_a_run_past_its_limit_is_ended(program, tmp_path):
    """At half a second of the processor, or four of the clock."""
    command = ["bash", "-c", f"trap 'echo asked' USR1; ({program}) & wait $!; wait"]
    assert run_limited(command, tmp_path / "log", 0.5) is None
    assert "asked" in (tmp_path / "log").read_text()
