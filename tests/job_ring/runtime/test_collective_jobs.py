"""Jobs of ranks in which somebody does not come to a collective operation, or is killed there.

Nobody would go on by itself before the time limit of the job: the timeouts are longer.
"""

from __future__ import annotations

import pytest
from jobs import run_job

PREAMBLE = """
    import os, signal, sys, threading
    import hpcflow as hf
    total = hf.mpi.allreduce(hf.ones([100000]), name="total")
    other = hf.mpi.allgather(hf.ones([3]), name="other")
    rank = hf.mpi.rank()
    session = hf.Session()
"""


@pytest.mark.parametrize("met", [True, False])
def test_a_rank_that_ends_its_program(tmp_path, met):
    ended = run_job(tmp_path, [PREAMBLE, f"""
    if {met}:
        session.run(total)
    if rank == 0:
        session.run(total)
    """])
    assert ended.status != 0
    assert "rank 1 has finished" in ended.output and "'total'" in ended.output, ended.output


def test_ranks_in_different_operations(tmp_path):
    ended = run_job(tmp_path, [PREAMBLE, """
    session.run(total); session.run(other)
    session.run(other if rank else total)
    """])
    assert ended.status != 0
    assert "'total'" in ended.output and "'other'" in ended.output, ended.output


@pytest.mark.parametrize(("when", "how"), [
    ("before", "os.kill(os.getpid(), signal.SIGKILL)"), ("before", "sys.exit(3)"),
    ("between", "raise ValueError('no')"), ("between", "os.kill(os.getpid(), signal.SIGKILL)"),
    ("inside", "os.kill(os.getpid(), signal.SIGKILL)")])
def test_a_rank_that_is_lost(tmp_path, when, how):
    """Nobody waits for ever, and the job's status is not 0."""
    ended = run_job(tmp_path, [PREAMBLE, f"""
    def lose():
        if rank == 1:
            {how}

    if {when == 'before'}:
        lose()
    session.run(total)
    if {when == 'inside'}:
        threading.Timer(0.3, lose).start()
        while True:
            session.run(total)
    lose()
    session.run(total)
    """])
    assert ended.status != 0, ended.output


def test_programs_that_never_meet_end_well(tmp_path):
    ended = run_job(tmp_path, ["""
    import hpcflow as hf
    print(f"[rank {hf.mpi.rank()}] done", flush=True)
    """])
    assert ended.status == 0, ended.output
    assert ended.lines_of(1) == ["done"]


def test_eight_ranks_on_few_cores(tmp_path):
    """More ranks than the mpi ring has: all operations in one step, small, long and of unknown
    shapes, through memory and by messages; and one that fails leaves the next ones right."""
    ended = run_job(tmp_path, ["""
    import numpy as np
    import hpcflow as hf
    rank, size = hf.mpi.rank(), hf.mpi.size()
    x = hf.placeholder(hf.float32, [100_003])
    rows = hf.placeholder(hf.float32, [None])
    fine = hf.placeholder(hf.bool, [])
    with hf.control_dependencies([hf.Assert(fine, ["no"])]):
        last = hf.mpi.allreduce(x[:3], "max")
    fetches = [hf.mpi.allreduce(x), hf.mpi.allreduce(rows, "mean"), hf.mpi.allgather(rows[:rank]),
               hf.mpi.broadcast(x[:5], 6), hf.mpi.alltoall(hf.range(size) + size * rank), last]
    start = np.arange(100_003, dtype=np.float32) % 100
    with hf.Session() as session:
        for turn in range(4):
            good = turn != 2
            feeds = {x: start + rank, rows: start[:50] * rank, fine: good or rank != 5}
            try:
                got = session.run(fetches, feeds)
            except hf.errors.OpError:
                assert not good
                continue
            assert good
            np.testing.assert_array_equal(got[0], size * start + 28)
            np.testing.assert_array_equal(got[1], start[:50] * 3.5)
            np.testing.assert_array_equal(
                got[2], np.concatenate([start[:r] * r for r in range(size)]))
            np.testing.assert_array_equal(got[3], start[:5] + 6)
            np.testing.assert_array_equal(got[4], np.arange(size) * size + rank)
            np.testing.assert_array_equal(got[5], start[:3] + 7)
    print("good", flush=True)
    """], ranks=8)
    assert ended.status == 0, ended.output
    assert ended.output.count("good") == 8
