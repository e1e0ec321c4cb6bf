"""Op types of TensorArrays, of all three versions: they differ in what a handle is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import merge_dim, no_outputs, scalar, unknown, with_rank

__all__: list[str] = []

# version -> the type of a handle
VERSIONS = {"": "Ref(string)", "V2": "string", "V3": "resource"}


# ---------------------------------------------------------------- shapes


def _array_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "the size")
    shapes: list[Dims] = [(2,), ()]
    return shapes[: len(op.outputs)]


def _grad_shape(op: Operation) -> list[Dims]:
    shapes: list[Dims] = [(2,), ()]
    return shapes[: len(op.outputs)]


def _read_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "the index")
    return unknown(op)


def _write_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "the index")
    return [()]


def _gather_shape(op: Operation) -> list[Dims]:
    count = with_rank(op.input_dims(1), 1, "the indices")[0]
    return [_stacked(count, op)]


def _pack_shape(op: Operation) -> list[Dims]:
    return [_stacked(None, op)]


def _stacked(count: int | None, op: Operation) -> Dims:
    dims = op._attrs["element_shape"]._dims
    return None if dims is None else (count, *dims)


def _scatter_shape(op: Operation) -> list[Dims]:
    count = with_rank(op.input_dims(1), 1, "the indices")[0]
    value = op.input_dims(2)
    if value is not None:
        merge_dim(count, value[0] if value else 0)
    return [()]


def _concat_shape(op: Operation) -> list[Dims]:
    rest = op._attrs["element_shape_except0"]._dims
    return [None if rest is None else (None, *rest), (None,)]


def _split_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(2), 1, "the lengths")
    return [()]


# ---------------------------------------------------------------- definitions

_ELEMENT = "element_shape: shape = unknown"
_ATTRS = {
    "": "dtype: type; dynamic_size: bool = false; clear_after_read: bool = true; "
        f'tensor_array_name: string = ""; {_ELEMENT}',
    "V2": f"dtype: type; {_ELEMENT}; dynamic_size: bool = false; clear_after_read: bool = true; "
          'tensor_array_name: string = ""',
    "V3": f"dtype: type; {_ELEMENT}; dynamic_size: bool = false; clear_after_read: bool = true; "
          'tensor_array_name: string = ""; identical_element_shapes: bool = false',
}  # fmt: skip


def _register(version: str, handle: str) -> None:
    deprecated = "Use TensorArrayV3" if not version else None
    given = f"handle: {handle}"

    def register(name: str, inputs: str, outputs: str, attrs: str,
                 shape: Callable[..., Any]) -> None:
        register_op(f"TensorArray{name}{version}", inputs, outputs, attrs, stateful=True,
                    shape=shape, deprecated=deprecated)

    flow = "; flow: float" if version == "V3" else ""
    register("", "size: int32", f"handle: {handle}{flow}", _ATTRS[version], _array_shape)
    register("Close", given, "", "", no_outputs)
    register("Size", f"{given}; flow_in: float", "size: int32", "", scalar)
    register("Write", f"{given}; index: int32; value: T; flow_in: float", "flow_out: float",
             "T: type", _write_shape)
    register("Read", f"{given}; index: int32; flow_in: float", "value: dtype", "dtype: type",
             _read_shape)
    register("Gather", f"{given}; indices: int32; flow_in: float", "value: dtype",
             f"dtype: type; {_ELEMENT}", _gather_shape)
    register("Scatter", f"{given}; indices: int32; value: T; flow_in: float", "flow_out: float",
             "T: type", _scatter_shape)
    register("Concat", f"{given}; flow_in: float", "value: dtype; lengths: int64",
             "dtype: type; element_shape_except0: shape = unknown", _concat_shape)
    register("Split", f"{given}; value: T; lengths: int64; flow_in: float", "flow_out: float",
             "T: type", _split_shape)


for _version, _handle in VERSIONS.items():
    _register(_version, _handle)

register_op("TensorArrayPack", "handle: Ref(string); flow_in: float", "value: dtype",
            f"dtype: type; {_ELEMENT}", stateful=True, shape=_pack_shape,
            deprecated="Use TensorArrayGatherV3")
register_op("TensorArrayUnpack", "handle: Ref(string); value: T; flow_in: float",
            "flow_out: float", "T: type", stateful=True, shape=scalar,
            deprecated="Use TensorArrayScatterV3")
register_op("TensorArrayGrad", "handle: string; flow_in: float", "grad_handle: Ref(string)",
            "source: string", stateful=True, shape=_grad_shape,
            deprecated="Use TensorArrayGradV3")
register_op("TensorArrayGradV2", "handle: string; flow_in: float", "grad_handle: string",
            "source: string", stateful=True, shape=_grad_shape)
register_op("TensorArrayGradV3", "handle: resource; flow_in: float",
            "grad_handle: resource; flow_out: float", "source: string", stateful=True,
            shape=_grad_shape)
not_differentiable(*(f"TensorArray{name}{version}" for name in ("", "Close", "Size", "Grad")
                     for version in VERSIONS))
