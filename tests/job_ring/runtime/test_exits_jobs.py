"""How ranks end that fork children, and that exit with a status while something keeps why."""

from __future__ import annotations

import pytest
from jobs import run_job

SERVED = """
    import os, sys
    import hpcflow as hf
    task = hf.mpi.task()
    server = hf.train.Server(task.cluster, task.job, task.index)
"""


@pytest.mark.parametrize(("end", "status"), [
    ("sys.exit(0)", 0), ("sys.exit(3)", 3), ("raise ValueError('in the child')", 1)])
def test_a_forked_child_ends_for_itself_alone(tmp_path, end, status):
    ended = run_job(tmp_path, [SERVED, f"""
    if task.rank == 1:
        child = os.fork()
        if not child:
            {end}
        print(f"[rank 1] child ended with {{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}}",
              flush=True)
    total = hf.mpi.allreduce(hf.ones([]))
    with hf.Session() as session:
        print(f"[rank {{task.rank}}] {{session.run(total)}}", flush=True)
    """])
    assert ended.status == 0, ended.output
    assert ended.lines_of(1) == [f"child ended with {status}", "2.0"], ended.output
    assert ended.lines_of(0) == ["2.0"]
    assert ("ValueError: in the child" in ended.output) == (status == 1)


@pytest.mark.parametrize("where", ["function", "program"])
def test_a_kept_exit_is_noticed(tmp_path, where):
    ended = run_job(tmp_path, [SERVED, """
    kept = []
    def leave():
        try:
            sys.exit(3)
        except SystemExit as error:
            kept.append(error)
            raise
    """, {"function": """
    if task.rank == 1:
        leave()
    server.join()
    """, "program": """
    if task.rank == 1:
        try:
            leave()
        finally:
            print("[rank 1] leaves", flush=True)
    server.join()
    """}[where]])
    assert ended.status == 3, ended.output
    assert "exited with status 3; ending the job" in ended.lines_of(1), ended.output


def test_a_kept_exit_that_was_caught_is_none(tmp_path):
    ended = run_job(tmp_path, [SERVED, """
    kept = []
    def main():
        try:
            sys.exit(3)
        except SystemExit as error:
            kept.append(error)
    main()
    try:
        sys.exit(4)
    except SystemExit as error:
        kept.append(error)
    print(f"[rank {task.rank}] goes on", flush=True)
    """])
    assert ended.status == 0, ended.output
    assert ended.lines_of(0) == ended.lines_of(1) == ["goes on"]
