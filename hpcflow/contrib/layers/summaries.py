"""Summaries of tensors, variables and activations, by collections."""

from __future__ import annotations

from collections.abc import Callable

from hpcflow import nn, summary
from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor


def summarize_tensor(tensor: Tensor, tag: str | None = None) -> Tensor:
    """Return the summary of a tensor: a scalar or a histogram, named `tag` or as the tensor."""
    name = tag or tensor.op.name
    if tensor.get_shape().ndims == 0:
        return summary.scalar(name, tensor)
    return summary.histogram(name, tensor)


def summarize_activation(op: Tensor) -> Tensor:
    """Return the histogram of an activation; of a ReLU also the fraction of zeros is written."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        summary.scalar(f"{op.op.name}/zeros", nn.zero_fraction(op))
    return summary.histogram(f"{op.op.name}/activation", op)


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
