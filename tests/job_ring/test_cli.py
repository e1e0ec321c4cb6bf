"""The command line: its help, and errors in plain words."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest

from hpcflow.tools import cli
from hpcflow.version import __version__


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name}" in text for name in cli.COMMANDS)


def test_no_command_prints_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    assert "usage:" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hpcflow {__version__}\n"


def test_unknown_command_suggests_a_known_one(capsys):
    assert cli.main(["docter"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no command 'docter'; did you mean doctor?" in captured.err


def raising(monkeypatch, error):
    """Make `doctor` a command that raises `error`."""

    def main(argv):
        raise error

    module = types.ModuleType("hpcflow.tools.doctor")
    module.main = main
    monkeypatch.setitem(sys.modules, "hpcflow.tools.doctor", module)


def test_an_error_for_the_user_has_no_traceback(monkeypatch, capsys):
    raising(monkeypatch, cli.CommandError("there is no such thing"))
    assert cli.main(["doctor"]) == 2
    assert capsys.readouterr().err == "python -m hpcflow doctor: there is no such thing\n"


def test_interrupting_is_no_traceback(monkeypatch):
    raising(monkeypatch, KeyboardInterrupt())
    assert cli.main(["doctor"]) == 130


def test_other_errors_are_not_hidden(monkeypatch):
    raising(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["doctor"])


def test_runs_as_a_module_and_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m hpcflow bench --list | true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert result.stderr == ""
    listed = subprocess.run(
        [sys.executable, "-m", "hpcflow", "bench", "--list"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert listed.returncode == 0
    assert listed.stdout.startswith("dispatch ")
