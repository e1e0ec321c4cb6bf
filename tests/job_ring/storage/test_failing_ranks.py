"""A rank that cannot write its part of a checkpoint: an error of the save, and nothing lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from jobs import run_job

# The second server waits for commands: which call is to fail, with which error. The worker lets
# every call of that rank fail in turn, by a saver that waits and by one in the background.
PROGRAM = """
    import ctypes, errno, os, sys, threading
    import numpy as np
    import hpcflow as hf
    from hpcflow import storage

    directory, commands, answers = {directory!r}, {commands!r}, {answers!r}
    classes = {{errno.ENOSPC: hf.errors.ResourceExhaustedError, errno.EIO: hf.errors.DataLossError}}

    def obey():
        library = ctypes.CDLL(None)
        with open(commands) as lines, open(answers, "w", buffering=1) as out:
            for line in lines:
                call, code = map(int, line.split())
                print(library.failing_calls_count(), file=out)
                library.failing_calls_arm(directory.encode(), call, code)

    task = hf.mpi.task(jobs={{"ps": 2}})
    server = hf.train.Server(task.cluster, task.job, task.index)
    if task.job == "ps":
        if task.index == 1:
            threading.Thread(target=obey, daemon=True).start()
        server.join()
        sys.exit()
    to, back = open(commands, "w", buffering=1), open(answers)

    def arm(call, code):
        "Let a call fail; returns how many there were before."
        print(call, code, file=to)
        return int(back.readline())

    with hf.device(hf.train.replica_device_setter(cluster=task.cluster)):
        table = list(hf.get_variable("table", [4, 1000], initializer=hf.zeros_initializer(),
                                     partitioner=hf.fixed_size_partitioner(2)))
    change = hf.group(*[part.assign_add(hf.ones_like(part)) for part in table])

    def save(session, saver):
        "Save other values; returns what that raised."
        session.run(change)
        try:
            saver.save(session, directory + "/model", 1)
            saver.join()
        except hf.errors.OpError as error:
            return error

    def check(session, value, names):
        "The latest checkpoint is whole and has this value, and nothing else is there."
        with storage.open_checkpoint(hf.train.latest_checkpoint(directory)) as reader:
            assert np.all(reader.read("table") == value)
        assert sorted(os.listdir(directory)) == names, os.listdir(directory)

    failed = 0
    with hf.Session(server.target) as session:
        session.run(hf.global_variables_initializer())
        for saver in [hf.train.Saver(), hf.train.Saver(async_save=True)]:
            for code in classes:
                arm(0, 0)
                assert save(session, saver) is None
                names, value = sorted(os.listdir(directory)), session.run(table[0])[0, 0]
                for call in range(1, 100):
                    arm(call, code)
                    error = save(session, saver)
                    if arm(0, 0) < call:
                        break
                    assert type(error) is classes[code], repr(error)
                    for text in (directory, "8000 bytes", os.strerror(code)):
                        assert text in error.message, error.message
                    check(session, value, names)
                    failed += 1
                assert error is None, error
                check(session, session.run(table[0])[0, 0], names)
    print("failed", failed, flush=True)
"""

TESTS = Path(__file__).parents[2]


def test_every_call_of_a_rank_fails_in_turn(tmp_path):
    library = tmp_path / "failing_calls.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, TESTS / "failing_calls.c",
                    "-ldl"], check=True)
    paths = {name: str(tmp_path / name) for name in ("directory", "commands", "answers")}
    os.mkdir(paths["directory"])
    os.mkfifo(paths["commands"])
    os.mkfifo(paths["answers"])
    ended = run_job(tmp_path, [PROGRAM.format(**paths)], 3, LD_PRELOAD=str(library))
    assert ended.status == 0, ended.output
    # Opening, writing, syncing and closing, by two errors and two savers.
    assert "failed 16" in ended.output, ended.output
