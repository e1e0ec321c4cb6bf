"""``python -m hpcflow run``: real jobs, how they end, and what the report says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from speed import patience

from hpcflow.tools import run
from hpcflow.tools.cli import CommandError
from hpcflow.tools.restarts import Place

PROGRAM = """
import os, signal, sys, time
import hpcflow as hf

task = hf.mpi.task()
print("here is", task.job, task.index, *sys.argv[1:], flush=True)
server = hf.train.Server(task.cluster, task.job, task.index)
if task.job == "ps":
    server.join()
    sys.exit()
what = sys.argv[1] if task.index == 0 else ""
if what == "raise":
    raise ValueError("no good")
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "exit":
    raise SystemExit(3)
if what == "sleep":
    time.sleep(1000)
with hf.device("/job:ps/task:0"):
    v = hf.Variable(2.0)
if task.index == 0:
    with hf.Session(server.target) as session:
        session.run(v.initializer)
        print("value", session.run(v), os.environ["OMP_NUM_THREADS"], flush=True)
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    root = str(Path(run.__file__).parents[2])

    def start(*arguments, options=()):
        command = [sys.executable, "-m", "hpcflow", "run", "-n", "3", "--ps", "1", "--logs",
                   str(tmp_path / "logs"), *options, str(tmp_path / "program.py"), *arguments]
        env = os.environ | {"PYTHONPATH": root}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, cwd=tmp_path)

    return start


def ended(process):
    out, err = process.communicate(timeout=patience())
    return process.returncode, out, err


def logs(folder):
    """What each of the three ranks has printed so far."""
    paths = [folder / "logs" / f"rank{rank}.log" for rank in range(3)]
    return [path.read_text() if path.exists() else "" for path in paths]


def test_a_job_that_ends_well(job, tmp_path):
    status, out, err = ended(job("fine", "--flag", options=("--threads", "1")))
    assert status == 0, err
    assert out.splitlines()[0] == "here is worker 0 fine --flag"  # not of the parameter server
    assert "3 ranks ended well" in err
    logs = sorted(p.name for p in (tmp_path / "logs").iterdir())
    assert logs == ["launcher.log", *(f"rank{r}.{e}" for r in range(3) for e in ("json", "log"))]
    assert "value 2.0 1" in (tmp_path / "logs" / "rank1.log").read_text()


@pytest.mark.parametrize(("how", "word", "expected"), [
    ("raise", "rank 1 on .*: ValueError: no good", None), ("exit", "exit status 3", 3),
    ("kill", "rank 1 on .*: ended without a word", None)])
def test_a_failing_rank_is_named(job, tmp_path, how, word, expected):
    outcome = tmp_path / "outcome.json"
    status, _, err = ended(job(how, options=("--follow", "all", "--json", str(outcome))))
    assert status == expected if expected else status != 0
    assert "the job failed with status" in err
    assert re.search(word, err), err
    facts = json.loads(outcome.read_text())
    assert facts["status"] == status and facts["seconds"] > 0
    assert [r["rank"] for r in facts["ranks"]] == [0, 1, 2]
    told = facts["ranks"][1]
    assert (told["code"], told["error"]) == {
        "raise": (1, "ValueError: no good"), "exit": (3, None), "kill": (None, None)}[how]
    assert Path(told["log"]).is_file() and told["host"]


def test_the_output_of_the_first_worker_is_found_where_the_program_names_the_jobs(tmp_path):
    (tmp_path / "program.py").write_text("""
import hpcflow as hf
task = hf.mpi.task(jobs={"ps": 2})
print(task.job, task.index)
""")
    command = [sys.executable, "-m", "hpcflow", "run", "-n", "4", "program.py"]
    env = os.environ | {"PYTHONPATH": str(Path(run.__file__).parents[2])}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True,
                          timeout=patience())
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "worker 0"
    assert "worker 1" not in done.stdout


def test_copies_of_a_program_that_never_meet(tmp_path):
    """A line says so, and a traceback begins in the program."""
    (tmp_path / "alone.py").write_text("""
import sys
print("here")
if len(sys.argv) > 1:
    raise ValueError("no good")
""")
    command = [sys.executable, "-m", "hpcflow", "run", "-n", "2", "alone.py"]
    env = os.environ | {"PYTHONPATH": str(Path(run.__file__).parents[2])}
    done = [subprocess.run([*command, *more], env=env, cwd=tmp_path, capture_output=True,
                           text=True, timeout=patience()) for more in ([], ["fail"])]
    assert done[0].returncode == 0 and "these ranks never met: 2 copies" in done[0].stderr
    assert done[1].returncode == 1 and "never met" not in done[1].stderr
    lines = done[1].stdout.splitlines()
    assert lines[1].startswith("Traceback") and 'alone.py", line 5' in lines[2]
    assert lines[-1] == "ValueError: no good"


def test_ranks_that_say_the_same_share_a_line():
    said = run._told({r: {"host": "n1", "code": 1, "error": "E: bad"} for r in (0, 2)}
                     | {1: {"host": "n1", "code": 3}})
    assert said == ["  ranks 0, 2 on n1: E: bad", "  rank 1 on n1: exit status 3"]


@pytest.fixture
def interruptible():
    """Children take interrupts, also where a shell started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_all_ranks(interruptible, job, tmp_path):
    process = job("sleep", options=("--follow", "0"))
    while not all("here is" in log for log in logs(tmp_path)):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    status, _, err = ended(process)
    assert status == 130 and err.count("\n") == 1 and "ended by SIGINT" in err


def test_a_launcher_that_started_nothing_is_started_again(tmp_path):
    launcher = tmp_path / "launcher"
    launcher.write_text("""#!/bin/sh
test -e began && exit 0
touch began
echo "The PMIx server's listener thread failed to start."
exit 213
""")
    launcher.chmod(0o755)
    job = run.Job(["env", "-C", str(tmp_path), str(launcher)], dict(os.environ), 0, tmp_path,
                  "none")
    assert job.run() == 0


def place(ranks, servers=0):
    return Place(ranks, servers, 0, frozenset(), {}, Path("logs"))


def test_launchers(monkeypatch, tmp_path):
    for name in ("srun", "mpirun"):
        (tmp_path / name).write_text("#!/bin/sh\necho fake\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    assert run.choose_launcher("auto", {}).endswith("/mpirun")
    srun = run.choose_launcher("auto", {"SLURM_JOB_ID": "7"})
    assert srun.endswith("/srun")
    assert run.launcher_command(srun, place(4))[1:] == [
        "--mpi=pmix", "--kill-on-bad-exit=1", "-n", "4"]
    assert "--overlap" in run.launcher_command(srun, place(4)._replace(number=1))
    assert run.launcher_command(str(tmp_path / "mpirun"), place(4))[1:] == ["-n", "4"]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CommandError, match="no mpirun"):
        run.choose_launcher("auto", {})


def test_threads_are_shared_among_ranks(monkeypatch):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert run.environment(run.parse(["p.py"]), place(4))["OMP_NUM_THREADS"] == "2"
    assert run.environment(run.parse(["p.py"]), place(100))["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert run.environment(run.parse(["p.py"]), place(4))["OMP_NUM_THREADS"] == "3"
    env = run.environment(run.parse(["--threads", "5", "p.py"]), place(4, servers=2))
    assert env["OMP_NUM_THREADS"] == "5" and env["HPCFLOW_PS"] == "2"


@pytest.mark.parametrize(("arguments", "message"), [
    (["--ps", "2", "-n", "2", __file__], "leaves no rank"),
    (["--ps", "2", "-n", "4", "--min-ranks", "2", __file__], "--min-ranks 2 is not between"),
    (["-n", "4", "--min-ranks", "5", __file__], "--min-ranks 5 is not between"),
    (["nothing.py"], "no file nothing.py")])
def test_wrong_arguments(arguments, message):
    with pytest.raises(CommandError, match=message):
        run.main(arguments)
