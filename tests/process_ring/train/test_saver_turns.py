"""Several savers of one directory: the save that was begun last is the latest checkpoint."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import threading
import time

import pytest
from speed import patience

import hpcflow as hf
from hpcflow import storage
from hpcflow.storage import saving

HOLDER = """
import sys
from hpcflow import storage
lock = storage.DirectoryLock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def session():
    with hf.Graph().as_default(), hf.Session() as opened:
        hf.Variable(1.0)
        opened.run(hf.global_variables_initializer())
        yield opened


def test_a_slow_save_does_not_replace_a_later_one(session, tmp_path, monkeypatch):
    reached, go_on = threading.Event(), threading.Event()
    commit = saving.commit

    def slow_commit(layout, records):
        if not reached.is_set():
            reached.set()
            go_on.wait(patience())
        return commit(layout, records)

    monkeypatch.setattr(storage, "commit", slow_commit)
    with session.graph.as_default():
        savers = [hf.train.Saver(), hf.train.Saver()]
    threads = [threading.Thread(target=saver.save, args=(session, str(tmp_path / "m"), step))
               for step, saver in enumerate(savers)]
    threads[0].start()
    assert reached.wait(patience())
    threads[1].start()
    threads[1].join(0.2)
    assert hf.train.latest_checkpoint(str(tmp_path)) is None
    go_on.set()
    for thread in threads:
        thread.join(patience())
    assert hf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m-1")


def test_processes_take_turns(session, tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == "held\n"
    with session.graph.as_default():
        saver = hf.train.Saver()
    thread = threading.Thread(target=saver.save, args=(session, str(tmp_path / "m")))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and not list(tmp_path.iterdir())
    holder.kill()  # a process that dies holds nothing
    holder.wait()
    thread.join(patience())
    assert hf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "m")


def somebody_waits(directory):
    """True if there is a lock on a byte of the directory."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        asked = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
        return struct.unpack("hhqqi", found)[0] != fcntl.F_UNLCK
    finally:
        os.close(descriptor)


def test_nobody_goes_ahead_of_another_process_that_waits(tmp_path):
    lock, again = storage.DirectoryLock(str(tmp_path)), []
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while not somebody_waits(tmp_path):
        time.sleep(0.01)
    lock.release()
    thread = threading.Thread(target=lambda: again.append(storage.DirectoryLock(str(tmp_path))))
    thread.start()
    assert holder.stdout.readline() == "held\n" and not again
    holder.communicate("\n")
    thread.join(patience())
    again[0].release()
    assert not somebody_waits(tmp_path)


def test_the_lock_leaves_nothing_and_is_patient_for_a_while_only(tmp_path, monkeypatch):
    monkeypatch.setattr("hpcflow.host.tuning.files.LOCK_PATIENCE_SECONDS", 0.05)
    with storage.DirectoryLock(str(tmp_path)):
        with pytest.raises(hf.errors.DeadlineExceededError, match=str(tmp_path)):
            storage.DirectoryLock(str(tmp_path))
    with storage.DirectoryLock(str(tmp_path)), storage.DirectoryLock(str(tmp_path / "missing")):
        assert not list(tmp_path.iterdir())
