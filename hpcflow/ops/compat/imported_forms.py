"""Newer op types that are built, and imported, as older ones which compute the same.

What such a node stands for is built in its place; an operation of its name gives the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.build import STAND_IN_WHEN, STAND_INS
from hpcflow.graph.graph import Graph, control_dependencies
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, unknown
from hpcflow.ops.arrays.matrix_bands import BANDS
from hpcflow.ops.common.type_sets import ORDERED
from hpcflow.ops.linalg.einsum import einsum

__all__: list[str] = []


def stands_for(op_type: str, inputs: str, outputs: str, attrs: str,
               build: Callable[[dict[str, Any], list[Tensor]], Any],
               stateful: bool = False) -> None:
    """Register `op_type`, and ``build(attrs, inputs)``, which makes its output, or a list or tuple
    of its outputs."""

    register_op(op_type, inputs, outputs, attrs, shape=unknown, stateful=stateful)
    not_differentiable(op_type)
    STAND_INS[op_type] = imported_as(op_type, build)


def stands_for_some(op_type: str, condition: Callable[[dict[str, Any]], bool],
                    build: Callable[[dict[str, Any], list[Tensor]], Any]) -> None:
    """Have ``build(attrs, inputs)`` make the outputs of a type that is registered already where
    ``condition(attrs)`` holds."""
    STAND_IN_WHEN[op_type] = condition
    STAND_INS[op_type] = imported_as(op_type, build)


def imported_as(op_type: str, build: Callable[[dict[str, Any], list[Tensor]], Any]) -> Callable:
    """Let the import build ``build(attrs, inputs)`` instead of an operation of that type."""

    def lower(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor],
              types: list) -> list[Tensor]:
        made = build(attrs, inputs)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    LOWERED[op_type] = lower
    return lower


# ---------------------------------------------------------------- diagonals


def _is_main(k: Tensor) -> bool:
    """True if the number of a diagonal is known to be that of the main one."""
    value = constant_value(k)
    return value is not None and not value.any()


def _align(attrs: dict[str, Any]) -> str:
    """Return the alignment of the diagonals of a band: the third version's attribute, or the fixed
    alignment of the second."""
    return attrs.get("align", b"LEFT_LEFT").decode()


def _matrix_diag(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    """Sizes of -1 stand for the length of the diagonal; the older op has zeros beside it."""
    diagonal, k, *rest = inputs
    known = [constant_value(t) for t in rest]
    if _is_main(k) and all(x is not None and np.array_equal(x, usual)
                           for x, usual in zip(known, (-1, -1, 0), strict=True)):
        return raw_ops.MatrixDiag(diagonal)
    return raw_ops.MatrixDiagV3(*inputs, align=_align(attrs))


def _matrix_diag_part(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    if _is_main(inputs[1]):
        return raw_ops.MatrixDiagPart(inputs[0])
    return raw_ops.MatrixDiagPartV3(*inputs, align=_align(attrs))


def _matrix_set_diag(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    if _is_main(inputs[2]) and inputs[2]._dims == ():
        return raw_ops.MatrixSetDiag(inputs[0], inputs[1])
    return raw_ops.MatrixSetDiagV3(*inputs, align=_align(attrs))


for _name, _build in (("MatrixDiag", _matrix_diag), ("MatrixDiagPart", _matrix_diag_part),
                      ("MatrixSetDiag", _matrix_set_diag)):
    _inputs, _outputs = BANDS[_name]
    stands_for(f"{_name}V2", _inputs, _outputs, "T: type", _build)
    imported_as(f"{_name}V3", _build)

# ---------------------------------------------------------------- others


def _einsum(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    """The function; but dimensions of an ellipsis are not summed, so the result must have one; and
    letters may occur several times in it."""
    equation = attrs["equation"].decode().replace(" ", "")
    operands, arrow, result = equation.partition("->")
    if arrow and "..." not in result:
        for letters, tensor in zip(operands.split(","), inputs, strict=False):
            rank = tensor.get_shape().ndims
            if "..." in letters and rank is not None and rank > len(letters) - 3:
                raise ValueError(f"Expected an ellipsis in the output of '{equation}': an ellipsis "
                                 "of the inputs has dimensions")
        operands = operands.replace("...", "")
        equation = f"{operands}->{result}"
    letters = result.replace("...", "")
    distinct = "".join(dict.fromkeys(letters))
    if distinct == letters:
        return einsum(equation, *inputs)
    span = "..." if "..." in result else ""
    return _on_diagonals(einsum(f"{operands}->{span}{distinct}", *inputs), distinct, result)


def _on_diagonals(x: Tensor, letters: str, result: str) -> Tensor:
    """A tensor of zeros but for `x`, of dimensions `letters` behind those of the ellipsis, where
    the places in all dimensions of a letter in `result` are equal."""
    rank = x.get_shape().ndims
    if rank is None:
        raise ValueError(f"Einsum with the result '{result}': the rank must be known")
    span = [f"{i}" for i in range(rank - len(letters))]
    names, before, dots, after = [*span, *letters], *result.partition("...")
    wanted = [*before, *(span if dots else []), *after]
    for place, name in enumerate(wanted):
        if name in wanted[:place]:
            at = names.index(name)
            order = [i for i in range(len(names)) if i != at] + [at]
            x = raw_ops.MatrixDiag(raw_ops.Transpose(x, np.array(order, np.int32)))
            wanted[place] = f"{name} {place}"
            names = [*(names[i] for i in order), wanted[place]]
    return raw_ops.Transpose(x, np.array([names.index(name) for name in wanted], np.int32))



def _guarantee_const(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    """The value; a variable, which may change, is refused in the step."""
    if inputs[0].dtype is not dtypes.resource:
        return raw_ops.Identity(inputs[0])
    refused = raw_ops.Assert(False, ["the input of GuaranteeConst cannot be a resource variable"])
    with control_dependencies([refused]):
        return raw_ops.Identity(inputs[0])


stands_for("Einsum", "inputs: N * T", "output: T", "equation: string; N: int >= 1; T: type",
           _einsum)
stands_for("ParallelDynamicStitch", "indices: N * int32; data: N * T", "merged: T",
           "N: int >= 1; T: type",
           lambda attrs, inputs: raw_ops.DynamicStitch(inputs[: attrs["N"]], inputs[attrs["N"]:]))
stands_for("ClipByValue", "t: T; clip_value_min: T; clip_value_max: T", "output: T", "T: type",
           lambda attrs, inputs: raw_ops.Maximum(raw_ops.Minimum(inputs[0], inputs[2]),
                                                 inputs[1]))
stands_for("AccumulateNV2", "inputs: N * T", "sum: T", "N: int >= 1; T: type; shape: shape",
           lambda attrs, inputs: raw_ops.AddN(inputs))
stands_for("Snapshot", "input: T", "output: T", "T: type",
           lambda attrs, inputs: raw_ops.Identity(inputs[0]))


def _euclidean_norm(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    x, axes = inputs
    if axes.get_shape().num_elements() == 0:
        return raw_ops.Identity(x)  # nothing is summed: signs and phases stay
    squares = raw_ops.Mul(x, raw_ops.Conj(x)) if x.dtype.is_complex else raw_ops.Square(x)
    total = raw_ops.Sum(squares, axes, keep_dims=attrs["keep_dims"])
    if x.dtype.is_integer:  # the root is rounded down
        return raw_ops.Cast(raw_ops.Sqrt(raw_ops.Cast(total, DstT=dtypes.float64)), DstT=x.dtype)
    return raw_ops.Sqrt(total)


def _unravel_index(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    """The places of flat positions, one row (one number if there is one) for each dimension."""
    positions, dims = inputs
    strides = raw_ops.Cumprod(dims, np.int32(0), exclusive=True, reverse=True)
    flat = raw_ops.Reshape(positions, np.array([1, -1], np.int32))
    places = raw_ops.FloorMod(raw_ops.FloorDiv(flat, raw_ops.ExpandDims(strides, np.int32(1))),
                              raw_ops.ExpandDims(dims, np.int32(1)))
    shape = raw_ops.ConcatV2([raw_ops.Shape(dims), raw_ops.Shape(positions)], np.int32(0))
    return raw_ops.Reshape(places, shape)


def _segments(op_type: str) -> Callable[[dict[str, Any], list[Tensor]], Tensor]:
    """Sums (or means, or sums over the root of the number) of chosen rows by segment."""

    def build(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
        data, indices, segments, count = inputs
        kind = data.dtype.base_dtype
        total = raw_ops.UnsortedSegmentSum(raw_ops.Gather(data, indices), segments, count)
        if op_type == "Sum":
            return total
        ones = raw_ops.Cast(raw_ops.OnesLike(segments), DstT=kind)
        number = raw_ops.Maximum(raw_ops.UnsortedSegmentSum(ones, segments, count),
                                 np.ones((), kind.np))
        divisor = raw_ops.Sqrt(number) if op_type == "SqrtN" else number
        ranks = raw_ops.Sub(raw_ops.Rank(data), np.int32(1))
        shape = raw_ops.ConcatV2([raw_ops.Shape(number), raw_ops.Fill(
            raw_ops.ExpandDims(ranks, np.int32(0)), np.int32(1))], np.int32(0))
        return raw_ops.RealDiv(total, raw_ops.Reshape(divisor, shape))

    return build


def _zero(dtype: dtypes.DType) -> Any:
    """The zero of `dtype`, of strings the empty one."""
    return b"" if dtype is dtypes.string else np.zeros((), dtype.np)


_INDEX = "{int32, int64}"
stands_for("EuclideanNorm", "input: T; reduction_indices: Tidx", "output: T",
           f"keep_dims: bool = false; T: type; Tidx: {_INDEX} = int32", _euclidean_norm)
stands_for("GuaranteeConst", "input: T", "output: T", "T: type", _guarantee_const)
stands_for("Empty", "shape: int32", "output: dtype", "dtype: type; init: bool = false",
           lambda attrs, inputs: raw_ops.Fill(inputs[0], _zero(attrs["dtype"])))
stands_for("Angle", "input: T", "output: Tout",
           "T: {complex64, complex128} = complex64; Tout: {float, double} = float",
           lambda attrs, inputs: raw_ops.Atan2(raw_ops.Imag(inputs[0], Tout=attrs["Tout"]),
                                               raw_ops.Real(inputs[0], Tout=attrs["Tout"])))
stands_for("UnravelIndex", "indices: Tidx; dims: Tidx", "output: Tidx",
           f"Tidx: {_INDEX} = int32", _unravel_index)
for _op_type, _types in (("Sum", ORDERED), ("Mean", "{float, double}"),
                         ("SqrtN", "{float, double}")):
    stands_for(f"SparseSegment{_op_type}WithNumSegments",
               "data: T; indices: Tidx; segment_ids: Tsegmentids; num_segments: Tnumsegments",
               "output: T", f"T: {_types}; Tidx: {_INDEX} = int32; "
               f"Tnumsegments: {_INDEX} = int32; Tsegmentids: {_INDEX} = int32",
               _segments(_op_type))


def _switch_n(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor],
              types: list) -> list[Tensor]:
    """A Switch for each output but the last, which takes what no other does."""
    data, index = inputs
    outputs = []
    for number in range(attrs["num_outs"] - 1):
        data, taken = raw_ops.Switch(data, raw_ops.Equal(index, np.int32(number)))
        outputs.append(taken)
        if number < attrs["num_outs"] - 2:
            index = raw_ops.Switch(index, raw_ops.Equal(index, np.int32(number)))[0]
    return [*outputs, data]


register_op("_SwitchN", "data: T; output_index: int32", "outputs: num_outs * T",
            "num_outs: int >= 1; T: type", shape=unknown)
not_differentiable("_SwitchN")
LOWERED["_SwitchN"] = _switch_n
