"""What the tests of collective operations share: programs of several replicas, their data, and
patterns of messages that are delivered by hand."""

from __future__ import annotations

import numpy as np
from replicas import run_replicas, values

import hpcflow as hf


def run_all(count, build):
    """What ``build(index)`` gives on every replica of a cluster, run twice in one session."""

    def program(index, target):
        fetches = build(index)
        with hf.Session(target) as session:
            session.run(fetches)
            return session.run(fetches)

    return values(run_replicas(count, program))


def part(index, shape=(5, 3), dtype=np.float32):
    return np.random.default_rng(index).standard_normal(shape).astype(dtype)


def deliver(lanes, most=None):
    """Run patterns against each other, message by message, each of `most` bytes."""
    rounds = {i: next(lane) for i, lane in enumerate(lanes)}
    while rounds:
        sends = {(i, k): b for i, (out, _) in rounds.items() for k, b in out}
        progress = False
        for i, (out, into) in list(rounds.items()):
            wanted = [(k, i) for k, _ in into]
            taken = [(i, k) for k, _ in out]
            if all(w in sends for w in wanted) and all(
                    i in dict(rounds[k][1]) for _, k in taken if k in rounds):
                progress = True
        assert progress
        assert most is None or all(b.nbytes <= most for b in sends.values())
        copies = [(dict(rounds[k][1])[i], b.copy()) for (i, k), b in sends.items()]
        for target, source in copies:
            target[...] = source
        for i in list(rounds):
            try:
                rounds[i] = lanes[i].send(True)
            except StopIteration:
                del rounds[i]
