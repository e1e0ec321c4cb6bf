"""Running tensors in a session of their own, and waiting for what steps of others do."""

import itertools
import re
import time

import pytest

import hpcflow as hf


def run(*tensors):
    """The value of a tensor, or a list of those of several."""
    with hf.Session() as session:
        found = session.run(list(tensors))
    return found[0] if len(found) == 1 else found


def until_running(session, count=1):
    """Wait until so many steps of a session have begun in other threads."""
    while len(session._engine.running._runs) < count:
        time.sleep(0.001)


def until_waiting(session, count=1):
    """Wait until so many steps of a session without a cluster wait for something."""
    def waits(run):
        return run.step._cancel_hooks

    while sum(map(bool, map(waits, list(session._engine.running._runs)))) < count:
        time.sleep(0.001)


def timed_out(session, fetches, *said, milliseconds=200):
    """The message of a step that never ends, at a timeout at which it says all that is `said`:
    regular expressions. The time grows, as on a busy machine steps do not come far in little."""
    for attempt in itertools.count():
        options = hf.RunOptions(timeout_in_ms=milliseconds * 4 ** attempt)
        with pytest.raises(hf.errors.DeadlineExceededError) as caught:
            session.run(fetches, options=options)
        text = str(caught.value)
        if all(re.search(part, text) for part in said):
            return text
        assert attempt < 5, text
