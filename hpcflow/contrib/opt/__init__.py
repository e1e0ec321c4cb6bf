"""``hpcflow.contrib.opt``: optimizers that are not in ``train``, and wrappers of others."""

from hpcflow.contrib.opt.averaging import MovingAverageOptimizer
from hpcflow.contrib.opt.clipping import VariableClippingOptimizer
from hpcflow.contrib.opt.external import ExternalOptimizerInterface, ScipyOptimizerInterface
from hpcflow.contrib.opt.lars import LARSOptimizer
from hpcflow.contrib.opt.lbfgs import LBFGSOptimizer
from hpcflow.contrib.opt.moments import AdaMaxOptimizer, LazyAdamOptimizer, NadamOptimizer
from hpcflow.contrib.opt.sign_decay import (
    get_cosine_decay_fn,
    get_linear_decay_fn,
    get_restart_decay_fn,
)
from hpcflow.contrib.opt.signs import AddSignOptimizer, PowerSignOptimizer
from hpcflow.contrib.opt.weight_decay import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    MomentumWOptimizer,
    extend_with_decoupled_weight_decay,
)

__all__ = [
    "AdaMaxOptimizer", "AdamWOptimizer", "AddSignOptimizer", "DecoupledWeightDecayExtension",
    "ExternalOptimizerInterface", "LARSOptimizer", "LBFGSOptimizer", "LazyAdamOptimizer",
    "MomentumWOptimizer", "MovingAverageOptimizer", "NadamOptimizer", "PowerSignOptimizer",
    "ScipyOptimizerInterface", "VariableClippingOptimizer", "extend_with_decoupled_weight_decay",
    "get_cosine_decay_fn", "get_linear_decay_fn", "get_restart_decay_fn",
]  # fmt: skip
