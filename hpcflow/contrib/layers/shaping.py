"""Layers without variables, and layers repeated or stacked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes, layers, nn
from hpcflow.autodiff.custom import custom_gradient
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.layers.building import collect_named_outputs
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import BoolLike, Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import is_sparse
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.sparse.sparse_layout import sparse_reshape
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.shapes import as_shape


@add_arg_scope
def dropout(inputs: Any, keep_prob: Any = 0.5, noise_shape: TensorLike | None = None,
            is_training: BoolLike = True, outputs_collections: Collections | None = None,
            scope: Any = None, seed: int | None = None) -> Tensor:
    """Return `inputs` with only a fraction `keep_prob` of the elements kept, while training.

    The scope is "Dropout"; arguments otherwise as of ``layers.dropout``.
    """
    with name_scope(scope, "Dropout", [inputs]) as name:
        outputs = layers.building.if_training(
            is_training,
            lambda: nn.dropout(inputs, keep_prob, noise_shape, seed),
            lambda: raw_ops.Identity(convert_to_tensor(inputs)))
        return collect_named_outputs(outputs_collections, name, outputs)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Collections | None = None,
            scope: Any = None) -> Tensor:
    """Return `inputs` with all dimensions but the first made one; the scope is "Flatten"."""
    with name_scope(scope, "Flatten", [inputs]) as name:
        inputs = convert_to_tensor(inputs)
        if inputs._dims is None:
            raise ValueError("flatten: the rank of the inputs must be known")
        return collect_named_outputs(outputs_collections, name, layers.flatten(inputs))


def inner_flatten(inputs: Any, new_rank: int, output_collections: Collections | None = None,
                  scope: Any = None) -> Any:
    """Return a tensor, dense or sparse, with as many of its last dimensions made one as it takes to
    have the rank `new_rank`; the scope is "InnerFlatten".

    Raises ``ValueError`` for inputs that are known to have a lower rank.
    """
    with name_scope(scope, "InnerFlatten", [inputs]) as name:
        inputs = inputs if is_sparse(inputs) else convert_to_tensor(inputs)
        dims = inputs.get_shape().dims
        if dims is not None and len(dims) < new_rank:
            raise ValueError(f"{'I' if is_sparse(inputs) else 'i'}nputs has rank less than "
                             f"new_rank: {len(dims)} < {new_rank}")
        shape: Any = inputs.dense_shape if is_sparse(inputs) else raw_ops.Shape(inputs)
        before = shape[:new_rank - 1]
        joined = raw_ops.ConcatV2([before, raw_ops.Prod(shape[new_rank - 1:], np.array(
            [0], np.int32), keep_dims=True)], 0)
        if is_sparse(inputs):
            outputs: Any = sparse_reshape(inputs, joined)
        else:
            outputs = raw_ops.Reshape(inputs, joined)
            if dims is not None:
                outputs.set_shape([*inputs._dims[:new_rank - 1],
                                   as_shape(inputs._dims[new_rank - 1:]).num_elements()])
        return collect_named_outputs(output_collections, name, outputs)


@add_arg_scope
def one_hot_encoding(labels: Any, num_classes: int, on_value: float = 1.0,
                     off_value: float = 0.0, outputs_collections: Collections | None = None,
                     scope: Any = None) -> Tensor:
    """Return labels as rows with `on_value` at the label; the scope is "OneHotEncoding"."""
    with name_scope(scope, "OneHotEncoding", [labels, num_classes]) as name:
        labels = convert_to_tensor(labels)
        if labels.dtype.base_dtype == dtypes.int32:
            labels = raw_ops.Cast(labels, DstT=dtypes.int64)
        outputs = one_hot(labels, num_classes, on_value, off_value)
        return collect_named_outputs(outputs_collections, name, outputs)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Tensor:
    """Return the softmax over the last of two or more dimensions; the scope is "softmax"."""
    with name_scope(scope, "softmax", [logits]):
        logits = convert_to_tensor(logits)
        if logits._dims is None or logits._dims[-1] is None:
            raise ValueError("softmax: the last dimension of the logits must be known, got shape "
                             f"{logits.shape}")
        return nn.softmax(logits)


def repeat(inputs: TensorLike, repetitions: int, layer: Callable, *args: Any, **kwargs: Any) -> Any:
    """Return ``layer(layer(... layer(inputs, *args, **kwargs)))``, `repetitions` times.

    The keyword `scope` is the scope around them ("Repeat"), and the beginning of theirs: "conv"
    makes ``conv/conv_1`` and so on.
    """
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        inner = scope or _function_name(layer, "repeat")
        outputs = convert_to_tensor(inputs)
        for i in range(repetitions):
            outputs = layer(outputs, *args, **kwargs, scope=f"{inner}_{i + 1}")
        return outputs


def stack(inputs: TensorLike, layer: Callable, stack_args: list, **kwargs: Any) -> Any:
    """Return layers on top of each other, each with its own arguments.

    `stack_args` holds what each takes besides its input: one argument, or a list of them. The
    keyword `scope` is as of :func:`repeat`; "Stack" if None.
    """
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError(f"stack_args need to be a list or tuple, got {stack_args!r}")
    with variable_scope(scope, "Stack", [inputs]):
        inner = scope or _function_name(layer, "stack")
        outputs = convert_to_tensor(inputs)
        for i, given in enumerate(stack_args):
            given = given if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *given, **kwargs, scope=f"{inner}_{i + 1}")
        return outputs


def _function_name(layer: Callable, default: str) -> str:
    while isinstance(layer, functools.partial):
        layer = layer.func
    return getattr(layer, "__name__", default)


@custom_gradient
def scale_gradient(inputs: Any, gradient_multiplier: Any) -> Any:
    """Return `inputs`, whose gradient is multiplied by `gradient_multiplier`, which broadcasts to
    them and has no gradient itself."""
    return raw_ops.Identity(inputs), lambda grad: [raw_ops.Mul(grad, gradient_multiplier), None]


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Tensor:
    """Return the maxima over groups of channels, `num_units` of them (arXiv:1302.4389)."""
    with name_scope(scope, "MaxOut", [inputs]):
        inputs = convert_to_tensor(inputs)
        dims: list = list(inputs._dims or ())
        channels = dims[axis] if dims else None
        if channels is None or channels % num_units:
            raise ValueError(f"number of features({channels}) is not a multiple of num_units"
                             f"({num_units})")
        axis %= len(dims)
        split = [-1 if d is None else d for d in dims]
        split[axis:axis + 1] = [num_units, channels // num_units]
        return raw_ops.Max(raw_ops.Reshape(inputs, np.array(split, np.int32)), axis + 1)
