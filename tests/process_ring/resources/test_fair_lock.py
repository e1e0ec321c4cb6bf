"""A lock for threads in turn."""

from __future__ import annotations

import threading

from hpcflow.resources.fair_lock import FairLock


def test_who_asked_first_comes_first():
    lock, order = FairLock(), []

    def again(name, times):
        for _ in range(times):
            with lock:
                order.append(name)

    lock.__enter__()
    threads = []
    for name in "abc":
        threads.append(threading.Thread(target=again, args=(name, 1)))
        threads[-1].start()
        while len(lock._gates) < len(threads):
            pass
    lock.__exit__()
    again("last", 1)  # asks behind the three, although it had the lock
    for thread in threads:
        thread.join(10)
    assert order == ["a", "b", "c", "last"]


def test_an_error_frees_it():
    lock = FairLock()
    try:
        with lock:
            raise ValueError
    except ValueError:
        pass
    with lock:
        pass
