"""The deterministic mode: the same bits on every run."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from async_ops import gate, gates
from speed import patience

import hpcflow as hf
from hpcflow import config


@pytest.fixture
def deterministic(monkeypatch):
    monkeypatch.setattr(config.flags, "deterministic", True)


def run_gated(session, fetches, order):
    """Run a step whose gates open in `order`, each when the one before has had its effect."""
    result = []
    thread = threading.Thread(target=lambda: result.append(session.run(fetches)))
    thread.start()
    for name in order:
        while not gates.count(name):
            time.sleep(0.002)
        gates.open(name)
        time.sleep(0.05)
    thread.join(patience())
    assert not thread.is_alive()
    return result[0]


def unordered_updates(mode_on, order, monkeypatch):
    monkeypatch.setattr(config.flags, "deterministic", mode_on)
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(1.0)
        session.run(v.initializer)
        doubled = hf.assign(v, gate(hf.constant(10.0), "first"))
        added = hf.assign_add(v, gate(hf.constant(3.0), "second"))
        run_gated(session, [doubled.op, added.op], order)
        return session.run(v)


def test_updates_come_in_graph_order_whatever_arrives_first(form, monkeypatch):
    assert unordered_updates(True, ["first", "second"], monkeypatch) == 13
    assert unordered_updates(True, ["second", "first"], monkeypatch) == 13
    assert unordered_updates(False, ["second", "first"], monkeypatch) == 10


def test_a_read_waits_for_the_update_before_it(form, deterministic, session):
    v = hf.Variable(1.0)
    session.run(v.initializer)
    update = hf.assign(v, gate(hf.constant(10.0), "late"))
    read = v.read_value() + 1.0
    assert run_gated(session, [read, update.op], ["late"])[0] == 11


def test_branches_and_loops_are_left_alone(form, deterministic, session):
    v = hf.Variable(1.0)
    p = hf.placeholder(hf.bool, [])

    def update(amount):
        with hf.control_dependencies([v.assign_add(amount)]):
            return hf.constant(amount)

    either = hf.cond(p, lambda: update(1.0), lambda: update(10.0))
    after = v.assign_sub(0.5)
    session.run(v.initializer)
    session.run([either, after.op], {p: True})
    assert session.run(v) == 1.5
    session.run([either, after.op], {p: False})
    assert session.run(v) == 11.0


def draw():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.random_normal([5], name="x")
        y = hf.random_uniform([5], name="y")
        q = hf.RandomShuffleQueue(20, 0, [hf.int32], shapes=[[]])
        session.run(q.enqueue_many([np.arange(20, dtype=np.int32)]))
        return [*session.run([x, y]), *session.run([x, y]), session.run(q.dequeue_many(20))]


def test_ops_without_a_seed_draw_the_same(deterministic):
    first, second = draw(), draw()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], first[2])  # the sequence goes on
    assert not np.array_equal(first[0], first[1])


def test_without_the_mode_they_draw_something_else():
    assert not np.array_equal(draw()[0], draw()[0])
