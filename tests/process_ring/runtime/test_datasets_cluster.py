"""Data sets on several devices and tasks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dataset_elements import rest

import hpcflow as hf
from hpcflow.data import Dataset

_numbers = itertools.count()


@pytest.fixture
def target(graph):
    name = f"datasets{next(_numbers)}"
    spec = hf.train.ClusterSpec({"worker": [f"{name}:{i}" for i in range(2)]})
    made = [hf.train.Server(spec, "worker", i) for i in range(2)]
    yield made[0].target
    for server in made:
        server._server.close()


def test_elements_of_another_task(target):
    with hf.device("/job:worker/task:1"):
        dataset = Dataset.range(10).map(lambda x: x * 2).filter(lambda x: x > 2).batch(3)
        following = dataset.prefetch(1).make_one_shot_iterator().get_next()
    with hf.device("/job:worker/task:0"):
        total = hf.reduce_sum(following)
    with hf.Session(target) as session:
        assert rest(session, total) == [4 + 6 + 8, 10 + 12 + 14, 16 + 18]


def test_an_iterator_for_each_task(target):
    sums = []
    for i in range(2):
        with hf.device(f"/job:worker/task:{i}"):
            iterator = Dataset.range(6).shard(2, i).flat_map(
                lambda x: Dataset.from_tensors(x).repeat(2)).make_initializable_iterator()
            sums.append((iterator.initializer, iterator.get_next()))
    with hf.Session(target) as session:
        session.run([s[0] for s in sums])
        following = [s[1] for s in sums]
        assert rest(session, following) == [
            [0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5]]


def test_an_element_in_a_branch_of_another_task(target):
    with hf.device("/job:worker/task:1"):
        iterator = Dataset.range(10).make_one_shot_iterator()
    which = hf.placeholder(hf.bool, [])
    chosen = hf.cond(which, iterator.get_next, lambda: np.int64(-1))
    with hf.Session(target) as session:
        assert [session.run(chosen, {which: w}) for w in (True, False, True)] == [0, -1, 1]


def test_errors_of_another_task_name_the_operation(target):
    with hf.device("/job:worker/task:1"):
        following = Dataset.range(2).map(lambda x: hf.check_numerics(
            1.0 / hf.to_float(x), "inverse", name="inverse")).make_one_shot_iterator().get_next()
    with hf.Session(target) as session, pytest.raises(
            hf.errors.InvalidArgumentError, match=r"inverse.*CheckNumerics"):
        session.run(following)


def test_sessions_share_an_iterator_by_name(target):
    iterator = Dataset.range(10).make_initializable_iterator(shared_name="shared")
    following = iterator.get_next()
    with hf.Session(target) as one, hf.Session(target) as two:
        one.run(iterator.initializer)
        assert [one.run(following), two.run(following), one.run(following)] == [0, 1, 2]


def test_containers(target):
    with hf.container("kept"):
        iterator = Dataset.range(10).make_initializable_iterator()
    following = iterator.get_next()
    with hf.Session(target) as session:
        session.run(iterator.initializer)
        assert session.run(following) == 0
    hf.Session.reset(target, ["other"])
    with hf.Session(target) as session:
        assert session.run(following) == 1
    hf.Session.reset(target, ["kept"])
    with hf.Session(target) as session, pytest.raises(
            hf.errors.FailedPreconditionError, match="not been initialized"):
        session.run(following)


def test_monitored_training(graph):
    iterator = Dataset.range(3).map(lambda x: x + 1).make_initializable_iterator()
    hf.add_to_collection(hf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    hf.train.get_or_create_global_step()
    following, seen = iterator.get_next(), []
    with hf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            seen.append(session.run(following))
    assert seen == [1, 2, 3]
