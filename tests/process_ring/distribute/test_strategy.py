"""Strategies with one replica; those with several are in the MPI ring."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.framework.function import Defun
from hpcflow.platform.device_lib import DeviceAttributes

STRATEGIES = [hf.distribute.MirroredStrategy, hf.contrib.distribute.CollectiveAllReduceStrategy,
              lambda: hf.distribute.OneDeviceStrategy("/cpu:0"),
              hf.distribute.experimental.ParameterServerStrategy]


@pytest.mark.parametrize("make", STRATEGIES)
def test_contexts(make, graph):
    strategy = make()
    assert copy.deepcopy(strategy) is strategy

    def state():
        context = hf.distribute.get_replica_context()
        return (hf.distribute.has_strategy(), hf.distribute.in_cross_replica_context(),
                None if context is None else context.strategy)

    outside = (False, False, hf.distribute.get_strategy())
    assert state() == outside
    with strategy.scope():
        assert state() == (True, True, None)
        assert strategy.experimental_run_v2(state) == (True, False, strategy)
        merged = strategy.run(lambda: hf.distribute.get_replica_context().merge_call(
            lambda found, value: (found, value, *state()), args=[3]))
        assert merged == (strategy, 3, True, True, None)
        v = hf.get_variable("v", [])
        assert type(v) is type(hf.get_variable("r", [], use_resource=True))
        assert strategy.extended.variable_created_in_scope(v)
    assert state() == outside


def test_updates_and_reductions_belong_where_they_are(graph):
    strategy = hf.distribute.MirroredStrategy()
    with strategy.scope():
        v = hf.get_variable("v", [])
        optimizer = hf.train.GradientDescentOptimizer(1.0)
        with pytest.raises(RuntimeError, match="cross-replica context"):
            optimizer.minimize(v * v)
        with pytest.raises(RuntimeError, match="cross-replica context"):
            strategy.run(lambda: strategy.reduce("sum", v))
        with pytest.raises(ValueError, match="MAX"):
            strategy.reduce("max", v)
        with pytest.raises(RuntimeError, match="inside"):
            hf.distribute.experimental_set_strategy(strategy)


class _Two(hf.distribute.MirroredStrategy):
    num_replicas_in_sync = 2


def test_gradients_within_functions_are_not_left_unreduced(graph):
    strategy = _Two()

    def applied(gradient):
        assert hf.distribute.get_replica_context().strategy is strategy
        hf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, v)])
        return gradient

    with strategy.scope():
        v = hf.get_variable("v", [])
        with pytest.raises(RuntimeError, match="Defun"):
            strategy.run(Defun(hf.float32)(applied), args=[hf.constant(1.0)])
        data = hf.data.Dataset.from_tensors(1.0)
        with pytest.raises(RuntimeError, match=r"Dataset\.map"):
            strategy.run(lambda: data.map(applied))


def test_losses_that_are_added_are_so_over_replicas(graph):
    def reduction(loss):
        loss([1.0], [2.0])
        return hf.distribute.get_loss_reduction()

    mean, total = hf.distribute.ReduceOp.MEAN, hf.distribute.ReduceOp.SUM
    squares, strategy = hf.losses.mean_squared_error, hf.distribute.MirroredStrategy()
    with strategy.scope():
        assert reduction(squares) is total  # loops of one's own divide them
        with strategy._scale_loss_for_estimator_enabled():  # estimators do not
            assert reduction(lambda y, p: squares(y, p, reduction="weighted_sum")) is total
            assert reduction(squares) is mean
            assert reduction(hf.keras.losses.MeanSquaredError(reduction="sum")) is total
            assert reduction(hf.keras.losses.MeanSquaredError()) is mean
        assert reduction(squares) is total


def test_the_devices_of_a_replica(monkeypatch):
    found = [DeviceAttributes("/device:CPU:0", "CPU", 1)]
    monkeypatch.setattr("hpcflow.distribute.strategy.list_local_devices", lambda: found)

    def devices(strategy):
        extended = strategy.extended
        assert extended.worker_devices == extended.parameter_devices
        return extended.worker_devices

    assert devices(hf.distribute.MirroredStrategy()) == ("/replica:0/task:0/device:CPU:0",)
    found.append(DeviceAttributes("/device:GPU:0", "GPU", 1))
    assert devices(hf.distribute.MirroredStrategy()) == ("/replica:0/task:0/device:GPU:0",)
    one = hf.distribute.OneDeviceStrategy("/gpu:1")
    assert devices(one) == ("/replica:0/task:0/device:GPU:1",)


def test_a_set_strategy_is_that_of_the_graph(graph):
    strategy = hf.distribute.OneDeviceStrategy("/cpu:0")
    hf.distribute.experimental_set_strategy(strategy)
    assert hf.distribute.get_strategy() is strategy
    assert hf.constant(1).device == "/device:CPU:0"
    hf.distribute.experimental_set_strategy(None)
    assert not hf.distribute.has_strategy()


def test_parts_of_a_batch():
    context = hf.distribute.InputContext(4, 1, 4)
    assert context.get_per_replica_batch_size(8) == 2
    with pytest.raises(ValueError, match="not divisible"):
        context.get_per_replica_batch_size(9)


def test_an_input_function_may_ask_for_its_part(tmp_path):
    strategy, seen = hf.distribute.MirroredStrategy(), []

    def input_fn(input_context=None):
        seen.append(input_context)
        return hf.data.Dataset.from_tensor_slices(np.ones([4, 2], np.float32)).batch(2)

    def model(features, mode):
        loss = hf.reduce_mean(hf.layers.dense(features, 1))
        step = hf.train.GradientDescentOptimizer(0.1).minimize(loss, hf.train.get_global_step())
        return hf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    both = hf.distribute.DistributeConfig(strategy, strategy)
    config = hf.estimator.RunConfig(str(tmp_path), experimental_distribute=both)
    estimator = hf.estimator.Estimator(model, config=config).train(input_fn)
    assert estimator.evaluate(input_fn)["global_step"] == 2
    assert seen == [hf.distribute.InputContext()] * 2
    with pytest.raises(ValueError, match=r"hf\.distribute\.Strategy"):
        hf.estimator.RunConfig(train_distribute="mirrored")
    remote = both._replace(remote_cluster=hf.train.ClusterSpec({"worker": ["a:1"]}))
    with pytest.raises(ValueError, match="remote_cluster"):
        hf.estimator.RunConfig(experimental_distribute=remote)
