"""``hpcflow.contrib.opt``: optimizers that are not in ``train``, and wrappers of others."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.opt.averaging import MovingAverageOptimizer
from hpcflow.contrib.opt.center_getters import (
    AGNCustomGetter,
    ElasticAverageCustomGetter,
    ModelAverageCustomGetter,
)
from hpcflow.contrib.opt.centers import (
    AGNOptimizer,
    ElasticAverageOptimizer,
    ModelAverageOptimizer,
)
from hpcflow.contrib.opt.clipping import VariableClippingOptimizer
from hpcflow.contrib.opt.external import ExternalOptimizerInterface, ScipyOptimizerInterface
from hpcflow.contrib.opt.ggt import GGTOptimizer
from hpcflow.contrib.opt.lars import LARSOptimizer
from hpcflow.contrib.opt.lbfgs import LBFGSOptimizer
from hpcflow.contrib.opt.moments import AdaMaxOptimizer, LazyAdamOptimizer, NadamOptimizer
from hpcflow.contrib.opt.multitask import (
    MultitaskOptimizerWrapper,
    clip_gradients_by_global_norm,
)
from hpcflow.contrib.opt.regularized import RegAdagradOptimizer
from hpcflow.contrib.opt.shampoo import ShampooOptimizer
from hpcflow.contrib.opt.sign_decay import (
    get_cosine_decay_fn,
    get_linear_decay_fn,
    get_restart_decay_fn,
)
from hpcflow.contrib.opt.signs import AddSignOptimizer, PowerSignOptimizer
from hpcflow.contrib.opt.stale import DropStaleGradientOptimizer
from hpcflow.contrib.opt.step_adam import AdamGSOptimizer, LazyAdamGSOptimizer
from hpcflow.contrib.opt.weight_decay import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    MomentumWOptimizer,
    extend_with_decoupled_weight_decay,
)

__all__ = [
    "AGNCustomGetter", "AGNOptimizer", "AdaMaxOptimizer", "AdamGSOptimizer", "AdamWOptimizer",
    "AddSignOptimizer", "DecoupledWeightDecayExtension", "DropStaleGradientOptimizer",
    "ElasticAverageCustomGetter", "ElasticAverageOptimizer", "ExternalOptimizerInterface",
    "GGTOptimizer", "LARSOptimizer", "LBFGSOptimizer", "LazyAdamGSOptimizer", "LazyAdamOptimizer",
    "ModelAverageCustomGetter", "ModelAverageOptimizer", "MomentumWOptimizer",
    "MovingAverageOptimizer", "MultitaskOptimizerWrapper", "NadamOptimizer",
    "PowerSignOptimizer", "RegAdagradOptimizer", "ScipyOptimizerInterface",
    "ShampooOptimizer",
    "VariableClippingOptimizer", "clip_gradients_by_global_norm",
    "extend_with_decoupled_weight_decay", "get_cosine_decay_fn", "get_linear_decay_fn",
    "get_restart_decay_fn",
]  # fmt: skip

__getattr__ = named_otherwise(__name__)
