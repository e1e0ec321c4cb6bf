"""Optimizers that programs derive from ours, by the attributes that those of 1.x have."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import train


class OwnAdam(train.AdamOptimizer):
    """Adam whose powers, rates and slots are taken one by one."""

    def _create_slots(self, var_list):
        first = min(var_list, key=lambda v: v.name)
        for name, value in (("beta1_power", self._beta1), ("beta2_power", self._beta2)):
            self._create_non_slot_variable(initial_value=value, name=name, colocate_with=first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _apply_dense(self, grad, var):
        power1, power2 = (hf.cast(p, var.dtype.base_dtype) for p in self._get_beta_accumulators())
        rate = self._lr_t * hf.sqrt(1 - power2) / (1 - power1)
        m = self.get_slot(var, "m")
        v = self.get_slot(var, "v")
        m = m.assign(self._beta1_t * m + (1 - self._beta1_t) * grad)
        v = v.assign(self._beta2_t * v + (1 - self._beta2_t) * grad * grad)
        return hf.assign_sub(var, rate * m / (hf.sqrt(v) + self._epsilon_t)).op


class HalfMomentum(train.MomentumOptimizer):
    """Momentum that halves what it was given before it makes tensors of it."""

    def _prepare(self):
        self._learning_rate, self._momentum = self._learning_rate / 2, self._momentum / 2
        super()._prepare()


def trained(optimizer):
    with hf.Graph().as_default(), hf.Session() as session:
        w = hf.Variable([1.0, -2.0, 3.0])
        step = optimizer.minimize(hf.reduce_sum(w**2))
        session.run(hf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        return session.run(w)


def test_derived_classes_step_as_the_classes_they_derive_from():
    np.testing.assert_allclose(trained(OwnAdam(0.1)), trained(train.AdamOptimizer(0.1)), rtol=1e-6)
    np.testing.assert_array_equal(trained(HalfMomentum(0.2, 0.9)),
                                  trained(train.MomentumOptimizer(0.1, 0.45)))


@pytest.mark.parametrize("optimizer, names", [
    (train.AdamOptimizer(0.5), {"lr_t": 0.5, "beta1_t": 0.9, "beta2_t": 0.999, "epsilon_t": 1e-8}),
    (train.AdadeltaOptimizer(0.5), {"lr_t": 0.5, "rho_t": 0.95, "epsilon_t": 1e-8}),
    (train.GradientDescentOptimizer(0.5), {"learning_rate_tensor": 0.5}),
    (train.AdagradOptimizer(0.5), {"learning_rate_tensor": 0.5}),
    (train.RMSPropOptimizer(0.5, 0.8, 0.1), {
        "learning_rate_tensor": 0.5, "decay_tensor": 0.8, "momentum_tensor": 0.1,
        "epsilon_tensor": 1e-10}),
    (train.FtrlOptimizer(0.5, l1_regularization_strength=0.25), {
        "learning_rate_tensor": 0.5, "l1_regularization_strength_tensor": 0.25,
        "learning_rate_power_tensor": -0.5, "l2_shrinkage_regularization_strength_tensor": 0}),
    (train.ProximalAdagradOptimizer(0.5, l2_regularization_strength=0.25), {
        "learning_rate_tensor": 0.5, "l2_regularization_strength_tensor": 0.25}),
], ids=lambda value: type(value).__name__ if isinstance(value, train.Optimizer) else "")
def test_hyperparameters_are_attributes(optimizer, names):
    for name in names:
        assert getattr(optimizer, "_" + name) is None
        assert isinstance(getattr(optimizer, "_" + name.rsplit("_", 1)[0]), (int, float))
    trained(optimizer)
    for name, value in names.items():
        tensor = getattr(optimizer, "_" + name)
        np.testing.assert_allclose(hf.contrib.util.constant_value(tensor), value)
