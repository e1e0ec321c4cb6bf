"""The job scripts of ``slurm/`` with stand-ins for Slurm: which jobs are queued again?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: The ranks: they save what SAVES says and end as STATUS says, or by the signal of a preemption.
SRUN = """#!/bin/bash
for path in $SAVES; do echo "$path" >> "$HPCFLOW_PROGRESS_FILE"; done
[ -z "$SIGNALLED" ] || kill -USR1 "$PPID"
exit "$STATUS"
"""
COMMANDS = {"srun": SRUN, "squeue": "#!/bin/bash\necho ${STATE:-RUNNING}\n",
            "scancel": "#!/bin/bash\n", "scontrol": "#!/bin/bash\necho scontrol \"$@\"\n"}
AGAIN, GIVEN_UP = "scontrol requeue 7", "3 starts in a row have saved nothing new: not queued again"


@pytest.fixture(params=["ps_train.sbatch", "allreduce_train.sbatch"])
def start(request, tmp_path):
    """Runs a start of the job; returns its status and output."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "activate").touch()
    for name, text in COMMANDS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    def run(saves="", status=75, **variables):
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "VENV": str(tmp_path),
               "LOGDIR": str(tmp_path / "logs"), "SLURM_JOB_ID": "7", "SAVES": saves,
               "STATUS": str(status), **variables}
        done = subprocess.run(["bash", ROOT / "slurm" / request.param], env=env, text=True,
                              capture_output=True, check=False, cwd=tmp_path)
        assert not done.stderr, done.stderr
        return done.returncode, done.stdout

    return run


def test_a_job_that_saves_is_queued_again(start):
    for step in range(6):
        status, output = start(f"/run/model.ckpt-{step} /run/model.ckpt-{step + 1}")
        assert status == 75 and AGAIN in output, output
    assert start("/run/model.ckpt-8", 0)[0] == 0


def test_a_job_without_steps_in_its_name_saves_something_new_every_time(start):
    for _ in range(5):
        assert AGAIN in start("/run/model")[1]


@pytest.mark.parametrize("ended", [{"status": 75}, {"status": 138, "SIGNALLED": "1"}])
def test_a_job_that_never_comes_further_is_given_up(start, ended):
    """The first start saves what it begins with, the others find that saved already."""
    assert AGAIN in start("/run/model.ckpt-0", **ended)[1]
    for _ in range(2):
        status, output = start("/run/model.ckpt-0", **ended)
        assert status == 75 and AGAIN in output, output
    status, output = start("/run/model.ckpt-0", **ended)
    assert status == 75 and AGAIN not in output and GIVEN_UP in output, output
    assert AGAIN in start("/run/model.ckpt-0", **ended)[1], "a person has started it anew"


def test_progress_counts_from_the_last(start):
    assert AGAIN in start()[1] and AGAIN in start()[1]
    assert AGAIN in start("/run/model.ckpt-5")[1]
    assert AGAIN in start("/run/model.ckpt-5")[1] and AGAIN in start()[1]
    assert GIVEN_UP in start()[1]


@pytest.mark.parametrize("ended", [{"status": 1}, {"status": 75, "STATE": "COMPLETING"}])
def test_a_job_that_fails_or_is_cancelled_is_not_queued_again(start, ended):
    status, output = start("/run/model.ckpt-0", **ended)
    assert status == ended["status"] and "scontrol" not in output, output
