"""Derivatives of graphs: `gradients`, `hessians` and how gradients are summed."""

import hpcflow.autodiff.control_flow
import hpcflow.autodiff.functions
from hpcflow.autodiff.aggregation import AggregationMethod
from hpcflow.autodiff.gradients import gradients, hessians

__all__ = ["AggregationMethod", "gradients", "hessians"]
