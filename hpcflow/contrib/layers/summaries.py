"""Summaries of tensors, variables and activations, by collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes, summary
from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.casting import to_float
from hpcflow.ops.math.reductions import reduce_mean


def summarize_tensor(tensor: Tensor, tag: str | None = None) -> Tensor | None:
    """Return the summary of a tensor, named `tag` or ``<name>_summary``: a scalar or a histogram;
    None of strings and booleans."""
    if tensor.dtype.base_dtype in (dtypes.string, dtypes.bool):
        return None
    name = tag or f"{tensor.op.name}_summary"
    if tensor.get_shape().ndims == 0:
        return summary.scalar(name, tensor)
    return summary.histogram(name, tensor)


def summarize_activation(op: Tensor) -> Tensor:
    """Return the histogram of an activation. Of a ReLU also the share of inputs below zero is
    written, of one with an upper end also that of inputs above 6."""
    name, kind = op.op.name, op.op.type
    if kind in ("Relu", "Softplus", "Relu6"):
        given: Any = op.op.inputs[0]
        number = given.dtype.base_dtype.np.type
        summary.scalar(f"{name}/zeros", reduce_mean(to_float(given < number(0))))
        if kind == "Relu6":
            summary.scalar(f"{name}/sixes", reduce_mean(to_float(given > number(6))))
    return summary.histogram(f"{name}/activation", op)


def summarize_tensors(tensors: list, summarizer: Callable = summarize_tensor) -> list:
    """Return the summary of each tensor."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(collection: str, name_filter: str | None = None,
                         summarizer: Callable = summarize_tensor) -> list:
    """Return the summary of each tensor of a collection whose name matches the filter."""
    return summarize_tensors(get_collection(collection, name_filter), summarizer)


def summarize_variables(name_filter: str | None = None,
                        summarizer: Callable = summarize_tensor) -> list:
    """Return the summary of each global variable."""
    return summarize_collection(GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_weights(name_filter: str | None = None,
                      summarizer: Callable = summarize_tensor) -> list:
    """Return the summary of each tensor of the collection of weights."""
    return summarize_collection(GraphKeys.WEIGHTS, name_filter, summarizer)


def summarize_biases(name_filter: str | None = None,
                     summarizer: Callable = summarize_tensor) -> list:
    """Return the summary of each tensor of the collection of biases."""
    return summarize_collection(GraphKeys.BIASES, name_filter, summarizer)


def summarize_activations(name_filter: str | None = None,
                          summarizer: Callable = summarize_activation) -> list:
    """Return the summary of each tensor of the collection of activations."""
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)
