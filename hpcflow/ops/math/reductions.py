"""Reductions over axes: Sum, Mean, Prod, Max, Min, All, Any, ArgMax, ArgMin and what they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called, also_ordered
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import AxisLike, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, known_number, register_constant_value
from hpcflow.ops.common.type_sets import SUMMED

__all__ = [
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "count_nonzero",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
]

# ---------------------------------------------------------------- shapes


def normalized_axes(axes: AxisLike, rank: int) -> tuple[int, ...]:
    """`axes` as sorted non-negative numbers; ``ValueError`` for one out of range.

    A repeated one is left to the kernel, which refuses it.
    """
    found = set()
    for axis in np.asarray(axes).reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise ValueError(f"Invalid reduction dimension {axis} for input with {rank} "
                             "dimensions.")
        found.add(axis % rank)
    return tuple(sorted(found))


def _reduced_dims(op: Operation) -> list[Dims]:
    dims, keep = op.input_dims(0), op.attr("keep_dims")
    axes_rank = len(op.input_dims(1) or ())
    if axes_rank > 1:
        raise ValueError(f"Shape must be at most rank 1 but is rank {axes_rank}: the axes")
    axes = constant_value(op.inputs[1])
    if dims is None:
        return [None]
    if axes is None:
        return [_partly_known(dims, op.input_dims(1), keep)]
    gone = set(normalized_axes(axes, len(dims)))
    if keep:
        return [tuple(1 if i in gone else d for i, d in enumerate(dims))]
    return [tuple(d for i, d in enumerate(dims) if i not in gone)]


def _partly_known(dims: tuple, axes_dims: Dims, keep: bool) -> Dims:
    """The shape when the axes are not known: only the rank can be."""
    if keep:
        return (None,) * len(dims)
    count = 1 if axes_dims == () else axes_dims[0] if axes_dims else None
    # The same axis may be given twice at run time only as an error, so the count is the drop.
    return None if count is None or count > len(dims) else (None,) * (len(dims) - count)


def _register(op_type: str, kind: str, types: str | None) -> None:
    head = "keep_dims: bool = false; "
    head += f"T: {types}; " if types else ""
    register_op(op_type, f"input: {kind}; reduction_indices: Tidx", f"output: {kind}",
                head + "Tidx: {int32, int64} = int32", shape=_reduced_dims)


for _op_type in ("Sum", "Prod", "Mean", "Max", "Min"):
    _register(_op_type, "T", SUMMED)
for _op_type in ("All", "Any"):
    _register(_op_type, "bool", None)
not_differentiable("All", "Any")


def _arg_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    axis = known_number(op, 1)
    if dims is None:
        return [None]
    if axis is None:
        return [(None,) * (len(dims) - 1)]
    if not dims:
        raise ValueError("a scalar has no axis to search")
    if not -len(dims) <= axis < len(dims):
        raise ValueError(f"Dimension ({int(axis)}) must be in the range [{-len(dims)}, "
                         f"{len(dims)}), where {len(dims)} is the number of dimensions in the "
                         "input.")
    gone = int(axis) % len(dims)
    return [tuple(d for i, d in enumerate(dims) if i != gone)]


for _op_type in ("ArgMax", "ArgMin"):
    register_op(_op_type, "input: T; dimension: Tidx", "output: output_type",
                f"T: {SUMMED[:-1]}, bool}}; Tidx: {{int32, int64}} = int32; "
                "output_type: {int32, int64} = int64", shape=_arg_shape)
not_differentiable("ArgMax", "ArgMin")


@register_constant_value("Prod")
def _constant_prod(op: Operation) -> Any:
    """Known for shape arithmetic: the product of the dims of a shape."""
    values, axes = constant_value(op.inputs[0]), constant_value(op.inputs[1])
    if values is None or axes is None or values.dtype.kind not in "iu":
        return None
    axis = normalized_axes(axes, values.ndim)
    return np.prod(values, axis=axis, keepdims=op.attr("keep_dims"), dtype=values.dtype)


# ---------------------------------------------------------------- gradients


def _known_axes(op: Operation) -> tuple[int, ...] | None:
    """The reduced axes if they and the input's rank are known."""
    axes = constant_value(op.inputs[1])
    dims = op.input_dims(0)
    return None if axes is None or dims is None else normalized_axes(axes, len(dims))


def _kept_shape(op: Operation) -> Any:
    """The shape of the output had the reduced axes been kept with size one."""
    x, axes = op.inputs[0], _known_axes(op)
    if axes is not None:
        dims = [1 if i in axes else d for i, d in enumerate(x._dims or ())]
        if dims.count(None) <= 1:
            return np.array([-1 if d is None else d for d in dims], np.int32)
    return _dynamic_kept_shape(raw_ops.Shape(x), op.inputs[1])


def reduced_shape(input_shape: TensorLike, axes: TensorLike) -> Tensor:
    """The shape of a sum over `axes` of a tensor of shape `input_shape`, int32, that keeps these
    axes with size one."""
    shape = convert_to_tensor(input_shape)
    return _dynamic_kept_shape(raw_ops.Cast(shape, DstT="int32"), convert_to_tensor(axes))


def _dynamic_kept_shape(shape: Tensor, axes: Tensor) -> Tensor:
    """`shape` with ones at `axes`, at run time."""
    rank = raw_ops.Size(shape)
    axes = raw_ops.Cast(axes, DstT="int32") if axes.dtype.base_dtype is not dtypes.int32 else axes
    axes = raw_ops.FloorMod(raw_ops.Add(raw_ops.Reshape(axes, [-1]), rank), rank)
    ones = raw_ops.Fill(raw_ops.Shape(axes), np.int32(1))
    return raw_ops.DynamicStitch([raw_ops.Range(np.int32(0), rank, np.int32(1)), axes],
                                 [shape, ones])


def _restore_axes(op: Operation, value: Tensor) -> Any:
    """An output-shaped value with the reduced axes back, of size one."""
    if op.attr("keep_dims") or _known_axes(op) == ():
        return value
    axes = _known_axes(op)
    if axes is not None and len(axes) == 1 and _kept_is_unknown(op):
        return raw_ops.ExpandDims(value, np.int32(axes[0]))
    return raw_ops.Reshape(value, _kept_shape(op))


def _kept_is_unknown(op: Operation) -> bool:
    axes = _known_axes(op) or ()
    dims = op.input_dims(0) or ()
    return sum(d is None for i, d in enumerate(dims) if i not in axes) > 1


def _input_shape(op: Operation) -> Any:
    """The shape of the first input, as a constant where it is known."""
    dims = op.input_dims(0)
    if dims is not None and None not in dims:
        return np.array(dims, np.int32)
    return raw_ops.Shape(op.inputs[0])


def _spread(op: Operation, grad: Tensor) -> Tensor:
    """The output-shaped `grad` repeated along the reduced axes."""
    return raw_ops.BroadcastTo(_restore_axes(op, grad), _input_shape(op))


@RegisterGradient("Sum")
def _sum_grad(op: Operation, grad: Tensor) -> tuple:
    return _spread(op, grad), None


@RegisterGradient("Mean")
def _mean_grad(op: Operation, grad: Tensor) -> tuple:
    """The gradient is divided while it is still small."""
    dtype = op.inputs[0].dtype.base_dtype
    dims, axes = op.input_dims(0), _known_axes(op)
    sizes = None if axes is None or dims is None else [dims[a] for a in axes]
    if sizes is not None and None not in sizes:
        count: Any = dtype.np.type(max(int(np.prod(sizes, dtype=np.int64)), 1))
    else:
        ratio = raw_ops.FloorDiv(raw_ops.Size(op.inputs[0]),
                                 raw_ops.Maximum(raw_ops.Size(op.outputs[0]), np.int32(1)))
        count = raw_ops.Cast(raw_ops.Maximum(ratio, np.int32(1)), DstT=dtype)
    return _spread(op, raw_ops.RealDiv(grad, count)), None


def _extremum_grad(op: Operation, grad: Tensor) -> tuple:
    """Elements equal to the extremum share the gradient evenly."""
    x = op.inputs[0]
    chosen = raw_ops.Cast(raw_ops.Equal(x, _restore_axes(op, op.outputs[0])), DstT=x.dtype)
    count = raw_ops.Sum(chosen, op.inputs[1], keep_dims=True)
    return raw_ops.Mul(chosen, raw_ops.RealDiv(_restore_axes(op, grad), count)), None


RegisterGradient("Max")(_extremum_grad)
RegisterGradient("Min")(_extremum_grad)


@RegisterGradient("Prod")
def _prod_grad(op: Operation, grad: Tensor) -> tuple:
    """The derivative by one element is the product of all others.

    Taken from exclusive products from both ends, so that zeros are no special case: the reduced
    axes are brought to the front and flattened.
    """
    x = op.inputs[0]
    if x.dtype.is_complex:
        x = raw_ops.Conj(x)
    shape = raw_ops.Shape(x)
    order, back, reduced = _front_order(op, shape)
    front = raw_ops.Transpose(x, order)
    front_shape = raw_ops.Shape(front)
    count = raw_ops.Prod(raw_ops.Gather(shape, reduced), np.array([0], np.int32))
    flat = raw_ops.Reshape(front, raw_ops.Pack([count, np.int32(-1)], axis=0))
    before = raw_ops.Cumprod(flat, np.int32(0), exclusive=True)
    after = raw_ops.Cumprod(flat, np.int32(0), exclusive=True, reverse=True)
    others = raw_ops.Reshape(raw_ops.Mul(before, after), front_shape)
    return raw_ops.Mul(_spread(op, grad), raw_ops.Transpose(others, back)), None


def _front_order(op: Operation, shape: Tensor) -> tuple[Any, Any, Any]:
    """The permutation that brings the reduced axes to the front, its inverse, and those axes."""
    axes, dims = _known_axes(op), op.input_dims(0)
    if axes is not None and dims is not None:
        order = list(axes) + [i for i in range(len(dims)) if i not in axes]
        return (np.array(order, np.int32), np.argsort(order).astype(np.int32),
                np.array(axes, np.int32))
    rank = raw_ops.Size(shape)
    reduced = raw_ops.Reshape(op.inputs[1], [-1])
    if reduced.dtype.base_dtype is not dtypes.int32:
        reduced = raw_ops.Cast(reduced, DstT="int32")
    reduced = raw_ops.FloorMod(raw_ops.Add(reduced, rank), rank)
    everything = raw_ops.Range(np.int32(0), rank, np.int32(1))
    others = raw_ops.ListDiff(everything, reduced)[0]
    order = raw_ops.ConcatV2([reduced, others], 0)
    return order, raw_ops.InvertPermutation(order), reduced


# ---------------------------------------------------------------- public functions


def _axes_of(x: Tensor, axis: Any, reduction_indices: Any = None) -> Any:
    """The axes to reduce: all of them when none are given."""
    if reduction_indices is not None:
        if axis is not None:
            raise ValueError("Can't specify both axis and reduction_indices.")
        axis = reduction_indices
    if axis is not None:
        return axis
    dims = x._dims if isinstance(x, Tensor) else None
    if dims is not None:
        return convert_to_tensor(np.arange(len(dims), dtype=np.int32), name="Const")
    return raw_ops.Range(np.int32(0), raw_ops.Rank(x), np.int32(1))


def _reduce(op_type: str, input_tensor: TensorLike, axis: AxisLike | None, keep_dims: bool,
            name: str | None, reduction_indices: AxisLike | None) -> Tensor:
    wanted = dtypes.bool if op_type in ("All", "Any") else None
    x = convert_to_tensor(input_tensor, wanted, name="input_tensor")
    result = getattr(raw_ops, op_type)(x, _axes_of(x, axis, reduction_indices),
                                       keep_dims=bool(keep_dims), name=name)
    if axis is None and reduction_indices is None and not keep_dims:
        result.set_shape(())  # also where the rank of the argument is unknown
    return result


def _make_reduction(op_type: str, function: str, what: str) -> Callable:
    @also_called(keepdims="keep_dims")
    def reduce(input_tensor: TensorLike, axis: AxisLike | None = None, keep_dims: bool = False,
               name: str | None = None, reduction_indices: AxisLike | None = None) -> Tensor:
        return _reduce(op_type, input_tensor, axis, keep_dims, name, reduction_indices)

    reduce.__name__ = reduce.__qualname__ = function
    reduce.__doc__ = f"""Return {what} over `axis` (all axes when None).

    The reduced axes are removed, or kept with size one if `keep_dims` (or `keepdims`, its later
    name). `axis` is a number, a list or a tensor; `reduction_indices` is its old name.
    """
    return reduce


reduce_sum = _make_reduction("Sum", "reduce_sum", "the sum")
reduce_mean = _make_reduction("Mean", "reduce_mean", "the mean (integers: rounded towards zero)")
reduce_prod = _make_reduction("Prod", "reduce_prod", "the product")
reduce_max = _make_reduction("Max", "reduce_max", "the maximum")
reduce_min = _make_reduction("Min", "reduce_min", "the minimum")
reduce_all = _make_reduction("All", "reduce_all", "whether all elements are true")
reduce_any = _make_reduction("Any", "reduce_any", "whether any element is true")


@also_called(keepdims="keep_dims")
def reduce_logsumexp(input_tensor: TensorLike, axis: AxisLike | None = None,
                     keep_dims: bool = False, name: str | None = None,
                     reduction_indices: AxisLike | None = None) -> Tensor:
    """Return log(sum(exp(x))) over `axis`, without overflow: the maximum is taken out first."""
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        x = convert_to_tensor(input_tensor, name="input_tensor")
        axes = _axes_of(x, axis, reduction_indices)
        top = raw_ops.StopGradient(raw_ops.Max(x, axes, keep_dims=True))
        # An infinite maximum would give inf - inf.
        top = raw_ops.Select(raw_ops.IsFinite(top), top, raw_ops.ZerosLike(top))
        total = raw_ops.Sum(raw_ops.Exp(raw_ops.Sub(x, top)), axes, keep_dims=bool(keep_dims))
        logarithm = raw_ops.Log(total)
        if not keep_dims:
            top = raw_ops.Reshape(top, raw_ops.Shape(logarithm))
        result = raw_ops.Add(logarithm, top, name=scope)
        if axis is None and reduction_indices is None and not keep_dims:
            result.set_shape(())  # also where the rank of the argument is unknown
        return result


@also_called(keep_dims="keepdims")
def reduce_variance(input_tensor: TensorLike, axis: AxisLike | None = None, keepdims: bool = False,
                    name: str | None = None) -> Tensor:
    """Return the mean squared distance from the mean over `axis` (all axes when None).

    That of complex numbers is real. Raises ``TypeError`` for integers.
    """
    with name_scope(name, "reduce_variance", [input_tensor]):
        x = convert_to_tensor(input_tensor, name="input_tensor")
        if x.dtype.is_integer:
            raise TypeError(f"reduce_variance: input must be floating-point or complex, got "
                            f"{x.dtype.base_dtype.name}")
        distance = raw_ops.Sub(x, reduce_mean(x, axis, True))
        return reduce_mean(_squared_size(distance), axis, keepdims)


@also_called(keep_dims="keepdims")
def reduce_std(input_tensor: TensorLike, axis: AxisLike | None = None, keepdims: bool = False,
               name: str | None = None) -> Tensor:
    """Return the square root of :func:`reduce_variance`."""
    with name_scope(name, "reduce_std", [input_tensor]):
        return raw_ops.Sqrt(reduce_variance(input_tensor, axis, keepdims))


@also_called(keep_dims="keepdims")
def reduce_euclidean_norm(input_tensor: TensorLike, axis: AxisLike | None = None,
                          keepdims: bool = False, name: str | None = None) -> Tensor:
    """Return the root of the sum of squares over `axis` (all axes when None)."""
    with name_scope(name, "EuclideanNorm", [input_tensor]) as scope:
        x = convert_to_tensor(input_tensor, name="input_tensor")
        norm = raw_ops.EuclideanNorm(x, _axes_of(x, axis, None), keep_dims=bool(keepdims),
                                     name=scope)
        if axis is None and not keepdims:
            norm.set_shape(())  # also where the rank of the argument is unknown
        return norm


def _squared_size(x: Tensor) -> Tensor:
    """|x|² of each number."""
    if x.dtype.is_complex:
        size = x.dtype.base_dtype.real_dtype
        return raw_ops.Square(raw_ops.ComplexAbs(x, Tout=size))
    return raw_ops.Square(x)


@also_called(keepdims="keep_dims", input="input_tensor")
def count_nonzero(input_tensor: TensorLike, axis: AxisLike | None = None, keep_dims: bool = False,
                  dtype: DTypeLike = dtypes.int64, name: str | None = None,
                  reduction_indices: AxisLike | None = None) -> Tensor:
    """Return the number of elements that are not zero (False, empty) over `axis`, as `dtype`."""
    with name_scope(name, "count_nonzero", [input_tensor]):
        x = convert_to_tensor(input_tensor, name="input_tensor")
        zero = np.array(b"", object) if x.dtype.base_dtype is dtypes.string else (
            np.zeros((), x.dtype.base_dtype.np))
        nonzero = raw_ops.Cast(raw_ops.NotEqual(x, zero), DstT="int64")
        total = _reduce("Sum", nonzero, axis, keep_dims, None, reduction_indices)
        return raw_ops.Cast(total, DstT=dtype)


def _make_arg(op_type: str, function: str, what: str) -> Callable:
    def find(input: TensorLike, axis: AxisLike | None = None, name: str | None = None,
             dimension: AxisLike | None = None, output_type: DTypeLike = dtypes.int64) -> Tensor:
        if dimension is not None:
            if axis is not None:
                raise ValueError("Cannot specify both 'axis' and 'dimension'")
            axis = dimension
        return getattr(raw_ops, op_type)(input, np.int32(0) if axis is None else axis,
                                         output_type=output_type, name=name)

    find.__name__ = find.__qualname__ = function
    find.__doc__ = f"""Return the index (an `output_type`) of the {what} along `axis` (0 when None).

    The first of equal elements is taken; a NaN comes before every number. `dimension` is the old
    name of `axis`.
    """
    return find


argmax = _make_arg("ArgMax", "argmax", "largest element")
argmin = _make_arg("ArgMin", "argmin", "smallest element")


@also_ordered("output_type", "name")
def arg_max(input: TensorLike, dimension: TensorLike, name: str | None = None,
            output_type: DTypeLike = dtypes.int64) -> Tensor:
    """Return the index of the largest element along `dimension`; see :func:`argmax`."""
    return raw_ops.ArgMax(input, dimension, output_type=output_type, name=name)


@also_ordered("output_type", "name")
def arg_min(input: TensorLike, dimension: TensorLike, name: str | None = None,
            output_type: DTypeLike = dtypes.int64) -> Tensor:
    """Return the index of the smallest element along `dimension`; see :func:`argmin`."""
    return raw_ops.ArgMin(input, dimension, output_type=output_type, name=name)
