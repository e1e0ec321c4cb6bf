"""Test ops with asynchronous kernels: they finish in threads of their own, now, twice or never."""

from __future__ import annotations

import threading
from typing import Any

from hpcflow import errors, raw_ops
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.shape_inference import unchanged
from hpcflow.kernels.registry import ASYNC, kernel


class Gates:
    """Named places where kernels of type ``TestGate`` wait until the test opens them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: dict[str, list] = {}
        self.cancelled: list[str] = []

    def arrive(self, name: str, entry: Any) -> None:
        """A kernel waits."""
        with self.lock:
            self.waiting.setdefault(name, []).append(entry)

    def open(self, name: str, outcome: Any = None) -> int:
        """Let those that wait go on, with their input or with `outcome`; returns their number."""
        with self.lock:
            entries = self.waiting.pop(name, [])
        for done, value, take_back in entries:
            take_back()
            done(value if outcome is None else outcome)
        return len(entries)

    def count(self, name: str) -> int:
        """How many wait."""
        with self.lock:
            return len(self.waiting.get(name, ()))


gates = Gates()

register_op("TestGate", "x: T", "y: T", "T: type; gate: string = ''; deaf: bool = false",
            shape=unchanged, stateful=True)
register_op("TestLater", "x: T", "y: T", "T: type; seconds: float = 0.0", shape=unchanged,
            stateful=True)
register_op("TestTwice", "x: T", "y: T", "T: type", shape=unchanged, stateful=True)
register_op("TestFailLater", "x: T", "y: T", "T: type; at_once: bool = false", shape=unchanged,
            stateful=True)
register_op("TestPairLater", "x: T", "y: T; z: T", "T: type", shape=unchanged, stateful=True)
register_op("TestEffectLater", "x: T", "", "T: type", stateful=True)


@kernel("TestGate", mode=ASYNC)
def _gate(node):
    name, deaf = node.attr("gate").decode(), node.attr("deaf")

    def wait(step, done, x):
        def cancelled():
            with gates.lock:
                entries = gates.waiting.get(name, [])
                gates.waiting[name] = [e for e in entries if e[0] is not done]
                gates.cancelled.append(name)
            done(errors.CancelledError(None, None, "The gate was cancelled"))

        take_back = step.when_cancelled(cancelled) if not deaf else lambda: None
        gates.arrive(name, (done, x, take_back))

    return wait


@kernel("TestLater", mode=ASYNC)
def _later(node):
    seconds = node.attr("seconds")
    return lambda step, done, x: threading.Timer(seconds, done, (x,)).start()


@kernel("TestTwice", mode=ASYNC)
def _twice(node):
    def run(step, done, x):
        done(x)
        done(x)
        threading.Timer(0.0, done, (ValueError("too late"),)).start()

    return run


@kernel("TestFailLater", mode=ASYNC)
def _fail_later(node):
    at_once = node.attr("at_once")

    def run(step, done, x):
        if at_once:
            raise ValueError("failed at once")
        threading.Timer(0.005, done, (ValueError("failed later"),)).start()

    return run


@kernel("TestPairLater", mode=ASYNC)
def _pair_later(node):
    return lambda step, done, x: threading.Timer(0.0, done, ((x, x + x),)).start()


@kernel("TestEffectLater", mode=ASYNC)
def _effect_later(node):
    return lambda step, done, x: threading.Timer(0.0, done, (None,)).start()


@RegisterGradient("TestLater")
def _later_grad(op, grad):
    return later(grad)


@RegisterGradient("TestGate")
def _gate_grad(op, grad):
    return grad


def later(x, seconds=0.0):
    """`x`, from another thread after `seconds`."""
    return raw_ops.TestLater(x=x, seconds=seconds)


def gate(x, name, deaf=False):
    """`x`, once the test has opened the gate; a `deaf` one waits for that although the step is
    cancelled."""
    return raw_ops.TestGate(x=x, gate=name, deaf=deaf)
