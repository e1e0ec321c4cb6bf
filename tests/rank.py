"""Run pytest as one rank of an MPI job, with this rank's output in a file of its own.

Usage: ``mpirun -n N python tests/rank.py DIRECTORY PYTEST_ARGUMENT...``

Writes ``DIRECTORY/rankR.log`` (everything this rank prints, C libraries included) and
``DIRECTORY/rankR.jsonl`` (its test outcomes, see conftest.py).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

WORLD_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


def launched_rank() -> int:
    """The rank that the launcher gave this process; 0 where there is no launcher."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if name in os.environ), 0)


def launched_world_size() -> int:
    """The number of ranks the launcher started; 1 where there is no launcher."""
    return next((int(os.environ[name]) for name in WORLD_VARIABLES if name in os.environ), 1)


def redirect_output(path: Path) -> None:
    """Send file descriptors 1 and 2 to `path`, so that native code's messages land there too."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def main(argv: list[str]) -> int:
    """Run pytest with `argv[1:]`, reporting into the directory `argv[0]`."""
    import pytest

    directory, arguments = Path(argv[0]), argv[1:]
    rank = launched_rank()
    redirect_output(directory / f"rank{rank}.log")
    record = f"--record={directory / f'rank{rank}.jsonl'}"
    status = pytest.main([*arguments, record, "-p", "no:cacheprovider"])
    # A rank with nothing to run is not a failure of the job; the runner counts the tests.
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
