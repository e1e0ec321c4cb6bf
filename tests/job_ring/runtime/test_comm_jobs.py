"""How jobs of several ranks begin and end: each test starts one with mpirun, under a time limit.

None of them would end by itself before that limit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import LIMIT_SECONDS, PACKAGE_PARENT, Ended, run_job

from hpcflow.comm.launch import without_launcher

PREAMBLE = """
    import os, sys, threading, time
    import numpy as np
    from hpcflow.comm import abort, world
    from hpcflow.comm.mpi_transport import MpiTransport
    from hpcflow.comm.waiting import Backoff

    def until(condition):
        backoff = Backoff(True)
        while not condition():
            if transport.poll():
                backoff.reset()
            else:
                backoff.wait()

    rank = world.world().rank
"""
TRANSPORT = """
    transport = MpiTransport()
    abort.install_abort_hook(rank)
    messages = []
    transport.set_handler(lambda source, payload: messages.append(payload))
"""


@pytest.fixture
def job(tmp_path: Path):
    """Run a program on some ranks; the preamble comes before it."""

    def run(program: str, ranks: int = 2, transport: bool = True, **variables: str) -> Ended:
        return run_job(tmp_path, [PREAMBLE, TRANSPORT if transport else "", program], ranks,
                       **variables)

    return run


@pytest.mark.parametrize("yields", [False, True])
def test_it_knows_whether_mpi_yields(job, yields: bool) -> None:
    """Open MPI yields when asked to, and where ranks are more than cores."""
    ended = job("""
        from mpi4py import MPI
        if "Open MPI" in MPI.Get_library_version():
            asked = os.environ["OMPI_MCA_mpi_yield_when_idle"] == "1"
            if asked or 2 > os.cpu_count():
                assert transport.yields
            elif not transport.comms.oversubscribed:  # of cores that are taken from a job MPI
                assert not transport.yields           # may not know
        else:
            assert not transport.yields
        print("as expected")
        transport.close()
    """, OMPI_MCA_mpi_yield_when_idle=str(int(yields)))
    assert ended.status == 0, ended.output
    assert ended.output.count("as expected") == 2


def test_exception_ends_the_job(job) -> None:
    ended = job("""
        if rank == 1:
            1 / 0
        until(lambda: False)
    """)
    assert ended.status != 0
    report = ended.lines_of(1)
    assert report[0] == "failed; ending the job"
    assert report[1] == "Traceback (most recent call last):"
    assert report[-1] == "ZeroDivisionError: division by zero"
    assert ended.lines_of(0) == []


def test_exception_in_a_thread_ends_the_job(job) -> None:
    ended = job("""
        if rank == 1:
            threading.Thread(target=lambda: 1 / 0, name="helper").start()
        until(lambda: False)
    """)
    assert ended.status != 0
    assert ended.lines_of(1)[0] == "failed in thread helper; ending the job"


def test_exit_with_a_status_ends_the_job(job) -> None:
    ended = job("""
        if rank == 1:
            sys.exit(3)
        until(lambda: False)
    """)
    assert ended.status != 0
    assert ended.lines_of(1) == ["exited with status 3; ending the job"]


def test_exit_with_a_text_ends_the_job(job) -> None:
    ended = job("""
        if rank == 0:
            sys.exit("cannot go on")
        until(lambda: False)
    """)
    assert ended.status != 0
    assert "cannot go on" in ended.output


def test_transport_aborts(job) -> None:
    ended = job("""
        if rank == 0:
            transport.abort(7, "lost a peer\\nafter a while")
        until(lambda: False)
    """)
    assert ended.status != 0
    assert ended.lines_of(0) == ["lost a peer", "after a while"]


def test_killed_rank_ends_the_job(job) -> None:
    ended = job("""
        if rank == 1:
            os.kill(os.getpid(), 9)
        until(lambda: False)
    """)
    assert ended.status != 0


def test_normal_end(job) -> None:
    """Requests outstanding, transports open and exits that were caught do no harm."""
    ended = job("""
        try:
            sys.exit(4)
        except SystemExit:
            pass
        transport.post_recv(np.zeros(10), 1 - rank, 3, lambda count: None)
        transport.recv_slot(np.zeros(10), 1 - rank, 4).start()
        unused = transport.recv_slot(np.zeros(10), 1 - rank, 4)
        transport.send_slot(np.zeros(10), 1 - rank, 5).start()
        if rank == 0:
            transport.send_message(1, b"m" * 3_000_000)
            transport.post_send(np.ones(1_000_000), 1, 6)
        else:
            data, counts = np.zeros(1_000_000), []
            time.sleep(0.5)
            transport.post_recv(data, 0, 6, counts.append)
            until(lambda: messages and counts)
            print("complete:", len(messages[0]), data.sum())
        sys.exit(0)
    """)
    assert ended.status == 0, ended.output
    assert "complete: 3000000 1000000.0" in ended.output


def test_sends_that_nobody_takes_do_not_hold_up_the_end(job) -> None:
    ended = job("""
        if rank == 0:
            transport.post_send(np.ones(1_000_000), 1, 6)
    """)
    assert ended.status == 0, ended.output


def test_a_rank_may_end_long_before_the_others(job) -> None:
    ended = job("""
        if rank == 0:
            time.sleep(2)
            print("rank 0 is done")
    """)
    assert ended.status == 0, ended.output
    assert "rank 0 is done" in ended.output


def test_rank_that_never_joins(job) -> None:
    program = """
        abort.install_abort_hook(rank)
        if rank == 0:
            MpiTransport()
        time.sleep(1000)
    """
    ended = job(program, transport=False, HPCFLOW_CONNECT_TIMEOUT="1")
    assert ended.status != 0
    assert "UnavailableError: not all 2 ranks joined within 1 s" in ended.lines_of(0)[-1]


def test_ranks_that_disagree_about_chunks(job) -> None:
    program = """
        from hpcflow import config
        abort.install_abort_hook(rank)
        config.flags.chunk_bytes += rank
        MpiTransport()
    """
    ended = job(program, transport=False)
    assert ended.status != 0
    assert "HPCFLOW_CHUNK_BYTES is 268435456 on rank 0, but 268435457 on rank 1" in ended.output


def test_ranks_of_different_versions(job) -> None:
    """All ranks say so, whether they work together by tasks or by collective operations."""
    program = """
        import hpcflow as hf
        from hpcflow import version
        version.__version__ = f"1.{rank}"
        for join in (hf.mpi.network, hf.mpi.task):
            try:
                join()
            except hf.errors.FailedPreconditionError as error:
                print(f"caught: {error}", flush=True)
    """
    ended = job(program, transport=False)
    assert ended.status == 0, ended.output
    expected = "caught: The version of hpcflow is 1.0 on rank 0, but 1.1 on rank 1: expected the"
    assert ended.output.count(expected) == 4


def test_one_rank_keeps_the_hooks_of_python(job) -> None:
    ended = job("sys.exit(3)", ranks=1)
    assert ended.status == 3
    assert ended.lines_of(0) == []


def test_without_a_launcher_mpi_is_not_started() -> None:
    program = (
        "import sys; from hpcflow.comm import world, loopback; "
        "assert not world.launched_under_mpi(); print(world.describe()); "
        "assert 'mpi4py.MPI' not in sys.modules"
    )
    env = without_launcher(os.environ) | {"PYTHONPATH": PACKAGE_PARENT}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert "'launcher': None" in ended.stdout


def test_launcher_that_mpi_does_not_know(tmp_path: Path) -> None:
    """As under srun without a PMI: several tasks, each of which MPI takes for a world."""
    program = "from hpcflow.comm import world; world.world()"
    env = without_launcher(os.environ) | {
        "PYTHONPATH": PACKAGE_PARENT,
        "SLURM_STEP_NUM_TASKS": "4",
        "SLURM_PROCID": "2",
    }
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert ended.returncode != 0
    assert "Slurm started 4 ranks, but MPI sees 1" in ended.stderr


def test_raising_system_exit_is_exiting(tmp_path: Path) -> None:
    """By whatever name it was known, and only if nothing catches it."""
    program = """
        try:
            raise SystemExit(4)
        except SystemExit as e:
            assert e.code == 4
        try:
            early(5)
        except SystemExit as e:
            assert e.code == 5 and type(e).__name__ == "SystemExit"
        if rank == 1:
            raise SystemExit(3)
        until(lambda: False)
    """
    ended = run_job(tmp_path, ["from sys import exit as early", PREAMBLE, TRANSPORT, program])
    assert ended.status != 0
    assert ended.lines_of(1) == ["exited with status 3; ending the job"]


@pytest.mark.parametrize("code", ["0", "", "None"])
def test_a_good_system_exit_is_a_normal_end(job, code: str) -> None:
    ended = job(f"raise SystemExit({code})")
    assert ended.status == 0, ended.output


@pytest.mark.parametrize("chosen", ["", "2"])
def test_ranks_that_are_more_than_their_cores_have_one_thread_each(
        tmp_path: Path, chosen: str) -> None:
    program = """
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        import hpcflow
        task = hpcflow.mpi.task(jobs={"ps": 1})
        hpcflow.train.Server(task.cluster, task.job, task.index)
        print(f"[rank {rank}] {os.environ.get('OMP_NUM_THREADS')}", flush=True)
    """
    ended = run_job(tmp_path, [PREAMBLE, program], OMP_NUM_THREADS=chosen,
                    OPENBLAS_NUM_THREADS="", MKL_NUM_THREADS="", HPCFLOW_THREADS="0")
    assert ended.status == 0, ended.output
    assert [ended.lines_of(rank) for rank in (0, 1)] == [[chosen or "1"]] * 2
