"""Derivatives of graphs: `gradients`, `hessians` and how gradients are summed.

May use the graph and ops. Begin reading with `gradients`; `loops` takes those of loops.
"""

import hpcflow.autodiff.control_flow
import hpcflow.autodiff.functions
from hpcflow.autodiff.aggregation import AggregationMethod
from hpcflow.autodiff.custom import custom_gradient, grad_pass_through, recompute_grad
from hpcflow.autodiff.gradients import UnconnectedGradients, gradients, hessians

__all__ = ["AggregationMethod", "UnconnectedGradients", "custom_gradient", "grad_pass_through",
           "gradients", "hessians", "recompute_grad"]  # fmt: skip
