"""Accumulators of gradients for synchronous training: op types and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import resource_handle, scalar, with_rank
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__ = ["ConditionalAccumulator", "ConditionalAccumulatorBase", "SparseConditionalAccumulator"]

_NUMBERS = ("dtype: {float32, float64, int64, int32, uint8, uint16, int16, int8, complex64, "
            "complex128, qint8, quint8, qint32, float16}")
_HANDLE = "handle: Ref(string)"


def _declared(op: Operation) -> Dims:
    """The shape that the accumulator declares, if it is in this graph."""
    shape = op.inputs[0].op.attr("shape")
    return shape._dims if shape is not None else None


def _average_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "the number of gradients")
    return [_declared(op)]


def _sparse_shapes(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "the number of gradients")
    dims = _declared(op)
    if not dims:
        return [(None,), None, (None,)]
    return [(None,), (None, *dims[1:]), (len(dims),)]


def _scalar_behind_handle(op: Operation) -> list[Dims]:
    """Shape function: no outputs; the step number is a scalar."""
    with_rank(op.input_dims(1), 0, "the step")
    return []


_KIND = (f"{_NUMBERS}; shape: shape; container: string = ''; shared_name: string = ''; "
         "reduction_type: string = 'MEAN'")
for _kind in ("ConditionalAccumulator", "SparseConditionalAccumulator"):
    register_op(_kind, "", _HANDLE, _KIND, shape=resource_handle, stateful=True)
register_op("ResourceConditionalAccumulator", "", "handle: resource", _KIND,
            shape=resource_handle, stateful=True)
# Later writers have dense accumulators behind resources.
for _prefix, _handle in (("", _HANDLE), ("Resource", "handle: resource")):
    register_op(f"{_prefix}AccumulatorApplyGradient",
                f"{_handle}; local_step: int64; gradient: dtype", "", _NUMBERS,
                shape=_scalar_behind_handle)
    register_op(f"{_prefix}AccumulatorNumAccumulated", _handle, "num_accumulated: int32",
                shape=scalar)
    register_op(f"{_prefix}AccumulatorSetGlobalStep", f"{_handle}; new_global_step: int64",
                shape=_scalar_behind_handle)
    register_op(f"{_prefix}AccumulatorTakeGradient", f"{_handle}; num_required: int32",
                "average: dtype", _NUMBERS, shape=_average_shape)
    not_differentiable(*(f"{_prefix}{name}" for name in (
        "ConditionalAccumulator", "AccumulatorApplyGradient", "AccumulatorNumAccumulated",
        "AccumulatorSetGlobalStep", "AccumulatorTakeGradient")))
register_op("SparseAccumulatorApplyGradient",
            f"{_HANDLE}; local_step: int64; gradient_indices: int64; gradient_values: dtype; "
            "gradient_shape: int64", "", f"{_NUMBERS}; has_known_shape: bool",
            shape=_scalar_behind_handle)
register_op("SparseAccumulatorTakeGradient", f"{_HANDLE}; num_required: int32",
            "indices: int64; values: dtype; shape: int64", _NUMBERS, shape=_sparse_shapes)
not_differentiable("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient",
                   "SparseAccumulatorTakeGradient")


class ConditionalAccumulatorBase:
    """The base class of gradient accumulators.

    A gradient is added with the number of the step it was computed in; one that is older than the
    accumulator's own step number is dropped. Taking the average waits until enough gradients have
    come, forgets them and increments the step number.
    """

    def __init__(self, dtype: DTypeLike, shape: ShapeLike, accumulator_ref: Tensor) -> None:
        self._dtype = dtypes_lib.as_dtype(dtype)
        self._shape = TensorShape(None) if shape is None else as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle of the accumulator."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The last part of the name of the accumulator's op."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The element type of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Return the number of gradients since the last average was taken, int32."""
        return self._op("AccumulatorNumAccumulated",
                        name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """Return an op that sets the step number; gradients of earlier steps are dropped."""
        step = _as_int64(new_global_step)
        return self._op("AccumulatorSetGlobalStep", new_global_step=step,
                        name=name or f"{self._name}_SetGlobalStep")

    def _op(self, op_type: str, **keywords: Any) -> Any:
        with get_default_graph().colocate_with(self._accumulator_ref.op):
            return getattr(raw_ops, op_type)(handle=self._accumulator_ref, **keywords)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Averages dense gradients of one variable.

    Args:
        dtype: element type of the gradients.
        shape: their shape; unknown dimensions are taken from the first one.
        shared_name: share the accumulator under this name between sessions.
        name: name of the op.
        reduction_type: "MEAN", or "SUM" to take sums instead of averages.
    """

    def __init__(self, dtype: DTypeLike, shape: ShapeLike | None = None,
                 shared_name: str | None = None, name: str = "conditional_accumulator",
                 reduction_type: str = "MEAN") -> None:
        super().__init__(dtype, shape, _new_handle(
            raw_ops.ConditionalAccumulator, dtype, shape, shared_name, name, reduction_type))

    def apply_grad(self, grad: Tensor, local_step: TensorLike = 0,
                   name: str | None = None) -> Operation:
        """Return an op that adds `grad`, unless `local_step` is older than the step number.

        Raises ``ValueError`` for a shape that does not fit, when run ``InvalidArgumentError``.
        """
        grad = convert_to_tensor(grad, self._dtype)
        grad.get_shape().assert_is_compatible_with(self._shape)
        return self._op("AccumulatorApplyGradient", local_step=_as_int64(local_step),
                        gradient=grad, name=name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """Return the average of the gradients, once there are `num_required`."""
        average = self._op("AccumulatorTakeGradient", num_required=num_required, dtype=self._dtype,
                           name=name)
        average.set_shape(self._shape)
        return average


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Averages gradients that have only some rows (``IndexedSlices``), row by row.

    Args: as of :class:`ConditionalAccumulator`; `shape` is that of the dense tensor.
    """

    def __init__(self, dtype: DTypeLike, shape: ShapeLike | None = None,
                 shared_name: str | None = None, name: str = "sparse_conditional_accumulator",
                 reduction_type: str = "MEAN") -> None:
        super().__init__(dtype, shape, _new_handle(
            raw_ops.SparseConditionalAccumulator, dtype, shape, shared_name, name, reduction_type))

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: TensorLike = 0,
                                  name: str | None = None) -> Operation:
        """Return an op that adds an ``IndexedSlices``, unless it is stale."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(self, grad_indices: Any, grad_values: TensorLike, grad_shape: Any = None,
                   local_step: TensorLike = 0, name: str | None = None) -> Operation:
        """Return an op that adds rows `grad_values` at `grad_indices`, unless they are stale.

        `grad_shape` is the shape of the dense tensor, if known. When run, raises
        ``InvalidArgumentError`` for what does not fit.
        """
        return self._op(
            "SparseAccumulatorApplyGradient", local_step=_as_int64(local_step),
            gradient_indices=_as_int64(grad_indices),
            gradient_values=convert_to_tensor(grad_values, self._dtype),
            gradient_shape=_as_int64([] if grad_shape is None else grad_shape),
            has_known_shape=grad_shape is not None, name=name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Return (indices, values, shape) of the average, once there are `num_required` gradients.

        Each row is averaged over the gradients that have it; unknown dimensions of the shape
        are -1.
        """
        return self._op("SparseAccumulatorTakeGradient", num_required=num_required,
                        dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required: Any,
                                 name: str | None = None) -> IndexedSlices:
        """As :meth:`take_grad`, as an ``IndexedSlices``."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)


def _new_handle(build: Callable[..., Tensor], dtype: DTypeLike, shape: ShapeLike,
                shared_name: str | None, name: str, reduction_type: str) -> Tensor:
    if reduction_type not in ("MEAN", "SUM"):
        raise ValueError(f"reduction_type must be 'MEAN' or 'SUM', not {reduction_type!r}")
    return build(dtype=dtype, shape=as_shape(shape), shared_name=shared_name or "", name=name,
                 container=get_default_graph()._container, reduction_type=reduction_type)


def _as_int64(value: TensorLike) -> Tensor:
    """`value` as an int64 tensor, cast if it is of another integer type."""
    try:
        tensor = convert_to_tensor(value, dtypes_lib.int64)
    except (TypeError, ValueError):
        tensor = convert_to_tensor(value)
    base = tensor.dtype.base_dtype
    return tensor if base is dtypes_lib.int64 else raw_ops.Cast(tensor, DstT=dtypes_lib.int64)
