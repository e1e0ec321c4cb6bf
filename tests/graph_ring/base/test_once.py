"""Values that are made once, by however many threads."""

from __future__ import annotations

import threading

from hpcflow.base.once import once


def test_threads_that_ask_at_once_get_the_same() -> None:
    count, calls, got = 4, [], []
    all_ask, again = threading.Barrier(count), threading.Event()

    @once
    def make(name: str) -> object:
        if calls:
            again.set()
        calls.append(name)
        again.wait(0.1)  # time for others to come in, if they can
        return object()

    def ask() -> None:
        all_ask.wait()
        got.append(make("a"))

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["a"] and set(got) == {make("a")}
    assert make("b") is not make("a")


def test_a_failure_is_tried_again() -> None:
    answers = [ValueError("not yet"), None]

    @once
    def make() -> str:
        if error := answers.pop(0):
            raise error
        return "made"

    try:
        make()
    except ValueError:
        pass
    assert make() == make() == "made"
