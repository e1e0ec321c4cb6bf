"""Derivatives of graphs: `gradients`, `hessians` and how gradients are summed."""

import hpcflow.autodiff.control_flow
import hpcflow.autodiff.functions
from hpcflow.autodiff.aggregation import AggregationMethod
from hpcflow.autodiff.custom import custom_gradient
from hpcflow.autodiff.gradients import UnconnectedGradients, gradients, hessians

__all__ = ["AggregationMethod", "UnconnectedGradients", "custom_gradient", "gradients",
           "hessians"]  # fmt: skip
