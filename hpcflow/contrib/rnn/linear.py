"""Helpers that the cells of other packages take from ``rnn_cell_impl``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, affine
from hpcflow.dtypes import DTypeLike
from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn_steps import zeros_of
from hpcflow.ops.arrays.layout import transpose
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.shapes import TensorShape, as_shape

if TYPE_CHECKING:
    from hpcflow.contrib.rnn.cell import RNNCell


def linear(args: Sequence[Any], output_size: int, bias: bool,
           bias_initializer: InitializerLike | None = None,
           kernel_initializer: InitializerLike | None = None, bias_start: float = 0.0) -> Tensor:
    """Return ``concat(args, 1) @ kernel (+ bias)``, with the variables of the current scope.

    Args:
        args: a matrix, or several with as many rows.
        output_size: the number of columns of the result.
        bias: whether to add one.
        bias_initializer: as of ``get_variable``; `bias_start` everywhere if None.
        kernel_initializer: as of ``get_variable``.
        bias_start: where the bias begins.

    Raises ``ValueError`` without matrices, or for those of unknown sizes.
    """
    if args is None or (nest.is_sequence(args) and not args):
        raise ValueError("`args` must be specified")
    values = list(args) if nest.is_sequence(args) else [args]
    return affine(values, output_size, bias, bias_start, kernel_initializer, bias_initializer)


class Linear:
    """:func:`linear` with variables that are made once, here, in the current scope; it is called
    with matrices of the same sizes. Arguments as of :func:`linear`."""

    def __init__(self, args: Sequence[Any], output_size: int, build_bias: bool,
                 bias_initializer: InitializerLike | None = None,
                 kernel_initializer: InitializerLike | None = None) -> None:
        values = [convert_to_tensor(x) for x in (args if nest.is_sequence(args) else [args])]
        sizes: Any = [x.shape[1].value for x in values]
        dtype = values[0].dtype.base_dtype
        self._kernel = get_variable(WEIGHTS, [sum(sizes), output_size], dtype,
                                    kernel_initializer)
        self._bias = get_variable(BIASES, [output_size], dtype,
                                  bias_initializer or Constant(0.0, dtype)) if build_bias else None

    def __call__(self, args: Any) -> Tensor:
        """Return the product for other matrices."""
        values = [convert_to_tensor(x) for x in (args if nest.is_sequence(args) else [args])]
        joined = values[0] if len(values) == 1 else raw_ops.ConcatV2(values, 1)
        product = raw_ops.MatMul(joined, convert_to_tensor(self._kernel))
        return product if self._bias is None else raw_ops.BiasAdd(
            product, convert_to_tensor(self._bias))


def like_rnncell(cell: RNNCell) -> bool:
    """Return whether an object has what is asked of cells."""
    return callable(cell) and all(
        hasattr(cell, name) for name in ("output_size", "state_size", "zero_state"))


def assert_like_rnncell(cell_name: str, cell: RNNCell) -> None:
    """Raise ``TypeError`` for an object that has not what is asked of cells."""
    if not like_rnncell(cell):
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: it must be "
                        "callable and have output_size, state_size and zero_state")


def concat_shapes(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """Return the shape that begins with `prefix` and goes on with `suffix`, each a number, a shape
    or a tensor: a list where `static`, a vector otherwise.

    Raises ``ValueError`` for shapes that are not known well enough, or a tensor that is `static`.
    """
    parts = [_dims_of(part) for part in (prefix, suffix)]
    if static:
        if any(isinstance(part, Tensor) for part in parts):
            raise ValueError("a static shape cannot be made of tensors")
        return TensorShape(parts[0]).concatenate(TensorShape(parts[1])).as_list()
    vectors = []
    for part in parts:
        if not isinstance(part, Tensor):
            if part is None or None in part:
                raise ValueError(f"prefix and suffix must be fully defined, got {prefix} and "
                                 f"{suffix}")
            part = convert_to_tensor(np.array(part, np.int32))
        vectors.append(part)
    return raw_ops.ConcatV2(vectors, 0)


def _dims_of(part: TensorLike) -> Any:
    """A shape as a list or a vector of int32; None if its rank is unknown."""
    if isinstance(part, Tensor):
        part = raw_ops.Cast(part, DstT=dtypes.int32) if part.dtype is not dtypes.int32 else part
        return raw_ops.ExpandDims(part, 0) if part.shape.ndims == 0 else part
    shape = as_shape(part)
    return None if shape.ndims is None else shape.as_list()


def zero_state_tensors(state_size: Any, batch_size: TensorLike, dtype: DTypeLike) -> Any:
    """Return zeros in the nest of `state_size`, with `batch_size` rows each."""
    return nest.pack_sequence_as(state_size, [zeros_of(s, batch_size, dtypes.as_dtype(dtype))
                                              for s in nest.flatten(state_size)])


def transpose_batch_time(x: TensorLike) -> Tensor:
    """Return `x` with its first two dimensions exchanged; what has fewer is returned as it is."""
    x = convert_to_tensor(x)
    ndims = x.shape.ndims
    if ndims is not None and ndims < 2:
        return x
    if ndims is not None:
        return transpose(x, [1, 0, *range(2, ndims)])
    rest = raw_ops.Range(np.int32(2), raw_ops.Rank(x), np.int32(1))
    return transpose(x, raw_ops.ConcatV2([np.array([1, 0], np.int32), rest], 0))

