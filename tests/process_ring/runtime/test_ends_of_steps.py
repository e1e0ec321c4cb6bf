"""What a client sees of the end of its step, which another thread may bring about."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import hpcflow as hf
from hpcflow.runtime.executor.event_loop import event_loop
from hpcflow.runtime.executor.executor import Step


def test_a_client_goes_on_after_the_hooks_of_its_step(graph, monkeypatch):
    queues = [hf.FIFOQueue(1, hf.int32, shapes=[[]]) for _ in range(2)]
    taken = [q.dequeue() for q in queues]
    put = [q.enqueue(number) for number, q in enumerate(queues)]
    ending, may_end, finish = threading.Event(), threading.Event(), Step._finish_step
    got = {}
    quiet = SimpleNamespace(poll=lambda: False, pending=lambda: 0)  # then one thread drives
    monkeypatch.setattr(event_loop(), "_endpoints", (quiet,))

    def slowly(step):
        if threading.current_thread() is driver and not ending.is_set():
            ending.set()
            may_end.wait(30)
        finish(step)

    def until(condition):
        while not condition():
            time.sleep(0.001)

    with hf.Session() as session:
        driver, beside = (threading.Thread(
            target=lambda n=n: got.update({n: session.run(taken[n])})) for n in range(2))
        driver.start()
        until(lambda: event_loop()._driver == driver.ident)
        beside.start()
        until(lambda: event_loop()._beside)
        monkeypatch.setattr(Step, "_finish_step", slowly)
        session.run(put[1])
        assert ending.wait(30)
        beside.join(0.3)  # long enough to look several times whether it is over
        went_on = not beside.is_alive()
        may_end.set()
        session.run(put[0])
        driver.join()
        beside.join()
    assert not went_on and got == {0: 0, 1: 1}
