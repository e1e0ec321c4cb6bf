"""Optimizers, moving averages and learning-rate schedules; re-exported as ``hpcflow.train``."""

from hpcflow.optimizers.adadelta import AdadeltaOptimizer
from hpcflow.optimizers.adagrad import AdagradDAOptimizer, AdagradOptimizer
from hpcflow.optimizers.adam import AdamOptimizer
from hpcflow.optimizers.cosine_decay import (
    cosine_decay,
    cosine_decay_restarts,
    linear_cosine_decay,
    noisy_linear_cosine_decay,
)
from hpcflow.optimizers.ftrl import FtrlOptimizer
from hpcflow.optimizers.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from hpcflow.optimizers.gradient_descent import GradientDescentOptimizer
from hpcflow.optimizers.learning_rate import (
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)
from hpcflow.optimizers.momentum import MomentumOptimizer
from hpcflow.optimizers.moving_averages import ExponentialMovingAverage
from hpcflow.optimizers.optimizer import Optimizer
from hpcflow.optimizers.proximal import ProximalAdagradOptimizer, ProximalGradientDescentOptimizer
from hpcflow.optimizers.rms_prop import RMSPropOptimizer

__all__ = [
    "AdadeltaOptimizer",
    "AdagradDAOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "ExponentialMovingAverage",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "RMSPropOptimizer",
    "assert_global_step",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "inverse_time_decay",
    "linear_cosine_decay",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "polynomial_decay",
]
