"""The command line: its help, and errors in plain words."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
from speed import patience

import hpcflow as hf
from hpcflow.tools import cli, launch_check
from hpcflow.version import API_VERSION, __version__

ROOT = Path(__file__).resolve().parents[3]


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name}" in text for name in cli.COMMANDS)


def test_no_command_prints_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    assert "usage:" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hpcflow {__version__} (API of {API_VERSION})\n"


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


def interrupted(tmp_path, *arguments):
    """Run Python with a module in the place of NumPy, which is imported early, that interrupts."""
    (tmp_path / "numpy.py").write_text("import signal; signal.raise_signal(signal.SIGINT)")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    return subprocess.run([sys.executable, *arguments], env=os.environ | {"PYTHONPATH": path},
                          preexec_fn=take_interrupts, capture_output=True, text=True,
                          timeout=patience())


def take_interrupts():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has it ignored


def test_interrupting_the_imports_of_a_command_is_silent_and_of_a_program_as_ever(tmp_path):
    done = interrupted(tmp_path, "-m", "hpcflow", "doctor")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    done = interrupted(tmp_path, "-c", "import hpcflow")
    assert done.returncode != 130 and done.stderr.endswith("KeyboardInterrupt\n")


def test_an_interrupt_that_a_finalizer_has_lost_comes_again():
    program = """
import signal, time
from hpcflow.base import interrupts
class Ends:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
interrupts.raise_from_now()
try:
    Ends()
    time.sleep(1000)
except KeyboardInterrupt:
    print("came")
"""
    done = subprocess.run([sys.executable, "-c", program], preexec_fn=take_interrupts, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
                          timeout=patience())
    assert (done.stdout, done.stderr) == ("came\n", "")


def test_other_errors_are_not_hidden(monkeypatch):
    raising(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["doctor"])


def test_runs_as_a_module_and_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m hpcflow bench --list | true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=patience())
    assert result.stderr == ""
    listed = subprocess.run(
        [sys.executable, "-m", "hpcflow", "bench", "--list"],
        capture_output=True,
        text=True,
        timeout=patience(),
    )
    assert listed.returncode == 0
    assert listed.stdout.startswith("dispatch ")


def test_the_reader_of_an_answer_may_have_left(tmp_path):
    metadata = hf.RunMetadata()
    with hf.Graph().as_default(), hf.Session() as session:
        session.run(hf.constant(1.0) + 1.0, run_metadata=metadata,
                    options=hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE))
    (tmp_path / "trace").write_bytes(metadata.SerializeToString())
    reading, writing = os.pipe()
    os.close(reading)
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, "-m", "hpcflow", "trace", "summary", "trace"], env=env,
                          cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, timeout=patience())
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


# ---------------------------------------------------------------- options


def parsers():
    """(what is typed, parser) of every command and of what it has below it."""
    for name in cli.COMMANDS:
        made = cli.command_module(name).parser()
        yield name, made
        for action in made._actions:
            if isinstance(action.choices, dict):
                yield from ((f"{name} {sub}", inner) for sub, inner in action.choices.items())


@pytest.mark.parametrize(("name", "made"), list(parsers()))
def test_every_option_has_a_help_and_every_command_says_its_statuses(name, made):
    silent = [action.dest for action in made._actions if not (action.help or action.metavar)]
    assert not silent
    assert "exit status" in made.format_help()


def test_wrong_options_take_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["simulate", "--steps", "many"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "a whole number >= 1, got 'many'" in said


@pytest.mark.parametrize("argv", [
    ["profile", "nowhere.pb"], ["simulate", "nowhere.pb", "--cluster", "nowhere.json"],
    ["checkpoint", "ls", "nowhere"], ["gpu-check", "--stages", "nonsense"],
    ["freeze-graph", "--output_graph", "x", "--input_graph", "nowhere.pb",
     "--input_checkpoint", "nowhere", "--output_node_names", "y"]])
def test_what_cannot_be_done_takes_one_line(argv, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"python -m hpcflow {argv[0]}: ") and said.count("\n") == 1


@pytest.fixture
def strange_files(tmp_path, monkeypatch):
    """A folder with files that are not what a command expects."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, data in {"empty": b"", "text": b"hello", "noise": bytes(range(128, 256)) * 9,
                       "list.json": b"[1]", "null.json": b"null", "wide.json": b"\xff\xfe{}",
                       "program.py": b""}.items():
        (tmp_path / name).write_bytes(data)
    with hf.Graph().as_default() as graph:
        hf.constant(1.0, name="y")
        (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())


FREEZE = "freeze-graph --output_graph x --input_checkpoint c --output_node_names z"


@pytest.mark.parametrize("line", [
    *(f"profile {name}" for name in ("empty", "text", "noise", "folder", "g.pb --trace empty",
                                     "g.pb --depth 0", "g.pb --top -1")),
    *(f"compare g.pb g.pb {options}" for options in (
        "--nodes (", "--feeds empty", "--feeds noise", "--feeds folder", "--bound nan",
        "--bound -1", "--peer /bin/true")),
    *(f"simulate g.pb --fetch y --cluster {options}" for options in (
        "list.json", "null.json", "wide.json", "folder", "list.json --replicas 0",
        "list.json --steps 0", "list.json --straggle nan", "list.json --tasks worker=0",
        "list.json --json folder", "list.json --json nowhere/x")),
    "simulate --measure folder", "simulate --measure x --pingpong list.json",
    "trace merge text -o folder", "trace merge text -o nowhere/x", "trace summary folder",
    f"{FREEZE} --input_graph g.pb --input_binary", f"{FREEZE} --input_graph noise",
    f"{FREEZE} --input_graph g.pb --input_binary perhaps",
    "checkpoint prune folder --keep many", "checkpoint diff c c --tolerance -1",
    "run folder", "run -n 2 --follow 2 program.py",
    "run --grace nan program.py", "run --json folder program.py", "run --logs empty program.py",
    "bench dispatch --json folder", "bench dispatch --json list.json", "bench null_step --ps 0",
    "bench gpu --stand-in folder", "gpu-check --workers 0", "doctor --launch 0"])
def test_bad_input_takes_one_line_before_any_work(line, capsys, strange_files):
    try:
        status = cli.main(line.split())
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr().err
    assert status == 2 and said.count("\n") == 1, said
    assert said.startswith(f"python -m hpcflow {line.split()[0]}"), said


# ---------------------------------------------------------------- completion


def completed(shell_script, words, shell="bash"):
    """What bash offers for the last of the words."""
    quoted = " ".join(f"'{w}'" for w in words)
    program = (f"{shell_script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _hpcflow; "
               'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True,
                          timeout=patience())
    assert not done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(capsys):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, ["hpcflow", ""]) == list(cli.COMMANDS)
    assert completed(script, ["hpcflow", "run", "--gr"]) == ["--grace"]
    assert completed(script, ["hpcflow", "run", "--launcher", "s"]) == ["srun"]
    assert completed(script, ["hpcflow", "checkpoint", "v"]) == ["verify"]
    assert completed(script, ["hpcflow", "checkpoint", "diff", "--tol"]) == ["--tolerance"]
    for name, made in parsers():
        options = {o for a in made._actions if a.help != "==SUPPRESS==" for o in a.option_strings}
        assert options <= set(completed(script, ["hpcflow", *name.split(), "-"]))


def test_zsh_reads_its_script(capsys):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    assert cli.main(["completion", "zsh"]) == 0
    script = "autoload -U compinit && compinit -u -D\n" + capsys.readouterr().out
    done = subprocess.run(["zsh", "-fc", script + "print ${_comps[hpcflow]}"], timeout=patience(),
                          capture_output=True, text=True)
    assert "_hpcflow" in done.stdout, done.stderr


def test_fish_reads_its_script_and_completes(capsys):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    assert cli.main(["completion", "fish"]) == 0
    script = capsys.readouterr().out

    def offered(line):
        done = subprocess.run(["fish", "-Nc", f"{script}complete -C 'hpcflow {line}'"],
                              timeout=patience(), capture_output=True, text=True)
        assert not done.stderr
        return [word.split("\t")[0] for word in done.stdout.splitlines()]

    assert offered("") == sorted(cli.COMMANDS)
    assert offered("run --gr") == ["--grace"]
    assert offered("run --launcher s") == ["srun"]
    assert offered("checkpoint v") == ["verify"]
    assert offered("checkpoint diff --tol") == ["--tolerance"]


# ---------------------------------------------------------------- doctor --launch


def test_the_doctor_starts_a_job(monkeypatch, capsys):
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    found = {one["launcher"]: one for one in launch_check.check_launchers(2)}
    assert found["mpirun"]["status"] == 0, found
    assert found["mpirun"]["ranks"] == 2
