"""Diagonals and bands: MatrixDiag, MatrixSetDiag, MatrixBandPart, Diag and their relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, show, with_rank_at_least
from hpcflow.ops.common.linear_map import LinearMap

__all__ = ["diag", "diag_part", "eye", "matrix_band_part", "matrix_diag", "matrix_diag_part",
           "matrix_set_diag"]  # fmt: skip

_T = "{float, double, int32, int64, complex64, complex128}"

# ---------------------------------------------------------------- shapes


def _smaller(a: int | None, b: int | None) -> int | None:
    """The length of the diagonal of an ``a x b`` matrix."""
    if a == 0 or b == 0:
        return 0
    return None if a is None or b is None else min(a, b)


def _diagonal_of(dims: tuple) -> tuple:
    return dims[:-2] + (_smaller(dims[-2], dims[-1]),)


def _matrix_diag_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "diagonal")
    return [None if dims is None else dims + dims[-1:]]


def _matrix_diag_part_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 2, "input")
    return [None if dims is None else _diagonal_of(dims)]


def _matrix_set_diag_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 2, "input")
    diagonal = with_rank_at_least(op.input_dims(1), 1, "diagonal")
    if dims is not None:
        merge_dims(diagonal, _diagonal_of(dims))
    return [dims]


def _band_part_shape(op: Operation) -> list[Dims]:
    for i in (1, 2):
        if op.input_dims(i):
            raise ValueError(f"{op.op_def.inputs[i].name} must be a scalar, but has shape "
                             f"{show(op.input_dims(i))}")
    return [with_rank_at_least(op.input_dims(0), 2, "input")]


def _diag_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "diagonal")
    return [None if dims is None else dims + dims]


def _diag_part_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    if dims is None:
        return [None]
    half, odd = divmod(len(dims), 2)
    if odd or not dims:
        raise ValueError(f"input must have an even and positive rank, but has shape {show(dims)}")
    return [merge_dims(dims[:half], dims[half:])]


# ---------------------------------------------------------------- op types

register_op("MatrixDiag", "diagonal: T", "output: T", "T: type", shape=_matrix_diag_shape)
register_op("MatrixDiagPart", "input: T", "diagonal: T", "T: type", shape=_matrix_diag_part_shape)
register_op("MatrixSetDiag", "input: T; diagonal: T", "output: T", "T: type",
            shape=_matrix_set_diag_shape)
register_op("MatrixBandPart", "input: T; num_lower: Tindex; num_upper: Tindex", "band: T",
            "T: type; Tindex: {int32, int64} = int64", shape=_band_part_shape)
register_op("Diag", "diagonal: T", "output: T", f"T: {_T}", shape=_diag_shape)
register_op("DiagPart", "input: T", "diagonal: T", f"T: {_T}", shape=_diag_part_shape)

# The names these op types had when batches were something special.
_OLD = "use the type without Batch in its name"
register_op("BatchMatrixDiag", "diagonal: T", "output: T", "T: type", shape=_matrix_diag_shape,
            deprecated=_OLD)
register_op("BatchMatrixDiagPart", "input: T", "diagonal: T", "T: type",
            shape=_matrix_diag_part_shape, deprecated=_OLD)
register_op("BatchMatrixSetDiag", "input: T; diagonal: T", "output: T", "T: type",
            shape=_matrix_set_diag_shape, deprecated=_OLD)
register_op("BatchMatrixBandPart", "input: T; num_lower: int64; num_upper: int64", "band: T",
            "T: type", shape=_band_part_shape, deprecated=_OLD)

# ---------------------------------------------------------------- gradients


@RegisterGradient("MatrixDiag")
def _matrix_diag_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.MatrixDiagPart(grad)


@RegisterGradient("MatrixDiagPart")
def _matrix_diag_part_grad(op: Operation, grad: Tensor) -> Tensor:
    dims = op.input_dims(0)
    if dims is not None and dims[-1] is not None and dims[-1] == dims[-2]:
        return raw_ops.MatrixDiag(grad)
    return raw_ops.MatrixSetDiag(raw_ops.ZerosLike(op.inputs[0]), grad)


@RegisterGradient("MatrixSetDiag")
def _matrix_set_diag_grad(op: Operation, grad: Tensor) -> list[Tensor]:
    diagonal = raw_ops.MatrixDiagPart(grad)
    return [raw_ops.MatrixSetDiag(grad, raw_ops.ZerosLike(diagonal)), diagonal]


@RegisterGradient("MatrixBandPart")
def _band_part_grad(op: Operation, grad: Tensor) -> list:
    return [raw_ops.MatrixBandPart(grad, op.inputs[1], op.inputs[2]), None, None]


@RegisterGradient("Diag")
def _diag_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.DiagPart(grad)


@RegisterGradient("DiagPart")
def _diag_part_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.Diag(grad)


# ---------------------------------------------------------------- building


# Where the shorter diagonals of a band are: those above the main one at the right.
_ALIGN = "RIGHT_LEFT"


def _is_main(k: Any) -> bool:
    return not isinstance(k, Tensor) and np.ndim(k) == 0 and k == 0


def matrix_diag(diagonal: TensorLike, name: str | None = None, k: TensorLike = 0,
                num_rows: TensorLike = -1, num_cols: TensorLike = -1, padding_value: Any = 0,
                align: str = _ALIGN) -> Tensor:
    """Return square matrices with the last dimension of `diagonal` on the diagonal, else zeros.

    From shape ``[..., N]`` to ``[..., N, N]``. With a pair `k` the last two dimensions are the
    diagonals `k[0]` to `k[1]`, the uppermost first; see :func:`matrix_diag_part`.

    Args:
        diagonal: a tensor of rank 1 or more.
        name: name of the operation.
        k: the number of the diagonal, 0 for the main one, or the lowest and the highest of a band.
        num_rows: the number of rows; as few as fit when -1.
        num_cols: the number of columns; as few as fit when -1.
        padding_value: what stands outside of the diagonals.
        align: as of :func:`matrix_diag_part`.
    """
    others = (num_rows, num_cols, padding_value)
    if _is_main(k) and not any(isinstance(v, Tensor) for v in others) and others == (-1, -1, 0):
        return raw_ops.MatrixDiag(diagonal=diagonal, name=name)
    diagonal = convert_to_tensor(diagonal, name="diagonal")
    return raw_ops.MatrixDiagV3(diagonal=diagonal, k=k, num_rows=num_rows, num_cols=num_cols,
                                padding_value=_padding(padding_value, diagonal), align=align,
                                name=name)


def matrix_diag_part(input: TensorLike, name: str | None = None, k: TensorLike = 0,
                     padding_value: Any = 0, align: str = _ALIGN) -> Tensor:
    """Return the main diagonals: from shape ``[..., M, N]`` to ``[..., min(M, N)]``.

    Args:
        input: a tensor of rank 2 or more.
        name: name of the operation.
        k: the number of the diagonal, 0 for the main one; or the lowest and the highest of a band,
            whose diagonals are the rows of matrices, the uppermost first.
        padding_value: what fills up the shorter diagonals of a band.
        align: where these are: "RIGHT_LEFT" puts those above the main diagonal to the right and
            those below to the left; "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT".
    """
    if isinstance(input, LinearMap):
        return input.diag_part(name or "diag_part")
    if _is_main(k):
        return raw_ops.MatrixDiagPart(input=input, name=name)
    input = convert_to_tensor(input, name="input")
    return raw_ops.MatrixDiagPartV3(input=input, k=k, padding_value=_padding(padding_value, input),
                                    align=align, name=name)


def _padding(value: TensorLike, beside: Tensor) -> Any:
    """Zero, the default, is False beside booleans."""
    is_number = isinstance(value, (int, float))
    return bool(value) if is_number and beside.dtype.base_dtype is dtypes.bool else value


def matrix_set_diag(input: TensorLike, diagonal: TensorLike, name: str | None = None,
                    k: TensorLike = 0, align: str = _ALIGN) -> Tensor:
    """Return the matrices `input` ``[..., M, N]`` with `diagonal` ``[..., min(M, N)]`` set.

    `k` and `align` are as of :func:`matrix_diag_part`.
    """
    if _is_main(k):
        return raw_ops.MatrixSetDiag(input=input, diagonal=diagonal, name=name)
    return raw_ops.MatrixSetDiagV3(input=input, diagonal=diagonal, k=k, align=align, name=name)


def matrix_band_part(input: TensorLike, num_lower: TensorLike, num_upper: TensorLike,
                     name: str | None = None) -> Tensor:
    """Return the matrices `input` ``[..., M, N]`` with zeros outside of a band.

    Args:
        input: the matrices.
        num_lower: how many subdiagonals to keep; negative: all.
        num_upper: how many superdiagonals to keep; negative: all.
        name: name of the operation.
    """
    return raw_ops.MatrixBandPart(input=input, num_lower=_index(num_lower),
                                  num_upper=_index(num_upper), name=name)


def _index(value: TensorLike) -> Any:
    return np.int64(value) if isinstance(value, int) else value


def diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor of twice the rank with `diagonal` where the two halves of the index agree."""
    return raw_ops.Diag(diagonal=diagonal, name=name)


def diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the elements of `input`, shape ``[D..., D...]``, where the halves of the index agree.
    """
    return raw_ops.DiagPart(input=input, name=name)


def eye(
        num_rows: TensorLike, num_columns: TensorLike | None = None,
        batch_shape: TensorLike | None = None, dtype: DTypeLike = dtypes.float32,
        name: str | None = None) -> Tensor:
    """Return an identity matrix, or a batch of them.

    Args:
        num_rows: an integer (or scalar tensor).
        num_columns: an integer (or scalar tensor); `num_rows` if left out.
        batch_shape: integers; the result has the shape ``batch_shape + [num_rows, num_columns]``.
        dtype: element type.
        name: name of the scope.
    """
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        batch = convert_to_tensor([] if batch_shape is None else batch_shape, dtypes.int32)
        rows = convert_to_tensor(num_rows, dtypes.int32)
        if num_columns is None:
            ones = _ones(raw_ops.ConcatV2([batch, raw_ops.Reshape(rows, [1])], 0), dtype)
            return raw_ops.MatrixDiag(ones)
        columns = convert_to_tensor(num_columns, dtypes.int32)
        size = raw_ops.Reshape(raw_ops.Minimum(rows, columns), [1])
        sizes = [raw_ops.Reshape(n, [1]) for n in (rows, columns)]  # vectors, whatever was known
        shape = raw_ops.ConcatV2([batch, *sizes], 0)
        zeros = raw_ops.Fill(shape, np.zeros((), dtypes.as_dtype(dtype).np))
        return raw_ops.MatrixSetDiag(zeros, _ones(raw_ops.ConcatV2([batch, size], 0), dtype))


def _ones(shape: Tensor, dtype: DTypeLike) -> Tensor:
    return raw_ops.Fill(shape, np.ones((), dtypes.as_dtype(dtype).np))
