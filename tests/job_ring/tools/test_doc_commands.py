"""The commands that README and docs show: what they name exists, and the smallest ones run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from pages import PAGES, ROOT, name_of
from speed import patience

from hpcflow.tools.cli import COMMANDS

SHELL = re.compile(r"^ *```bash\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"[A-Z_]+=\S*")
LAUNCHERS = {"mpirun", "srun"}
OF_THE_READER = {"train.py", "model.meta"}  # files that a page speaks of and does not have


def commands(page):
    """The command lines of a page, without comments."""
    for block in SHELL.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            for command in line.split(" && "):
                if words := shlex.split(command, comments=True):
                    yield shlex.join(words)


ALL = sorted({(name_of(page), command) for page in PAGES for command in commands(page)})
SMALL = sorted({command for _, command in ALL if "examples/minimal_" in command})


@cache
def help_of(command):
    return subprocess.run([sys.executable, "-m", "hpcflow", command, "--help"], text=True,
                          capture_output=True, check=True).stdout


def options_of(words):
    return [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]


def check_program(words):
    """``FILE options``: the file is there and knows the options."""
    if words[0] in OF_THE_READER:
        return
    source = (ROOT / words[0]).read_text()
    for option in options_of(words[1:]):
        assert f'"{option}"' in source, f"{words[0]} has no {option}"


def check_command(words):
    """``COMMAND options`` of hpcflow, with the program that ``run`` starts."""
    name, rest = words[0], words[1:]
    assert name in COMMANDS
    program = next((i for i, word in enumerate(rest) if word.endswith(".py")), len(rest))
    for option in options_of(rest[:program] if name == "run" else rest):
        assert re.search(rf"(^|[\s\[,]){option}\b", help_of(name)), f"{name} has no {option}"
    if name == "run":
        check_program(rest[program:])


def check_make(words):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert all(word in targets for word in words if "=" not in word)


def check_pip(words):
    text = (ROOT / "pyproject.toml").read_text()
    for extra in ",".join(re.findall(r"\[(.+?)\]", " ".join(words))).split(","):
        assert not extra or re.search(rf"^{extra} = ", text, re.MULTILINE), f"no extra {extra}"


def check(words):
    """Raise AssertionError for what a command line names that there is not."""
    while words and (SETTING.fullmatch(words[0]) or words[0] == "sudo"):
        words = words[1:]
    if words[0] in LAUNCHERS:
        words = words[next(i for i, w in enumerate(words) if w.endswith("python")):]
    first, rest = Path(words[0]).name, words[1:]
    if first in ("python", "python3") and rest[0] == "-m":
        if rest[1] == "hpcflow":
            check_command(rest[2:])
        else:
            assert rest[1] in ("venv", "pytest")
    elif first == "hpcflow":
        check_command(rest)
    elif first == "python":
        check_program(rest)
    elif first == "make":
        check_make(rest)
    elif first == "sbatch":
        assert any((ROOT / word).is_file() for word in rest)
    elif first == "pip":
        check_pip(rest)
    else:
        assert words == [".", ".venv/bin/activate"], f"an unknown command: {words}"


@pytest.mark.parametrize(("page", "command"), ALL)
def test_what_a_command_names_exists(page, command):
    check(shlex.split(command))


@pytest.mark.parametrize("command", [
    "python -m hpcflow run --nonsense 3 examples/minimal_ps.py", "make tset",
    "sbatch slurm/x.sbatch", "python examples/digits_ps.py --nonsense",
    "pip install .[nonsense]", "mpiexec -n 2 python a.py"])
def test_wrong_commands_are_found(command):
    with pytest.raises(AssertionError):
        check(command.split())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("command", SMALL)
def test_the_smallest_programs_run_as_shown(command, tmp_path):
    for name in ("examples", "hpcflow"):
        (tmp_path / name).symlink_to(ROOT / name)
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, text=True,
                          capture_output=True, timeout=patience(180), check=False)
    assert done.returncode == 0, done.stderr
    assert "loss 0.000000, weights [ 2. -1.], bias 0.50" in done.stdout
