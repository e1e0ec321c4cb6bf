"""Op types that parse examples, with the dense shapes as attributes: one, and V2."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import show, with_rank

__all__: list[str] = []

_VALUES = "{float, int64, string}"


def _dense_shapes(op: Operation, batch: tuple) -> list[Dims]:
    shapes = op.attr("dense_shapes")
    if len(shapes) != len(op.attr("Tdense")):
        raise ValueError(f"{len(op.attr('Tdense'))} dense features but {len(shapes)} dense_shapes")
    for key, shape in enumerate(shapes):
        if shape._dims is None or None in shape._dims[1:]:
            raise ValueError(f"dense_shapes[{key}] must be known but for its first dimension, got "
                             f"{show(shape._dims)}")
    return [(*batch, *shape._dims) for shape in shapes]


def _sparse_shapes(op: Operation, rank: int | None) -> list[Dims]:
    count = op.attr("num_sparse")
    if count != len(op.attr("sparse_types")):
        raise ValueError(f"num_sparse is {count}, but there are {len(op.attr('sparse_types'))} "
                         "sparse_types")
    indices, values, shapes = (None, rank), (None,), (rank,)
    return [*[indices] * count, *[values] * count, *[shapes] * count]


def _single_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "serialized")
    for name in ("sparse", "dense"):
        types = op.attr("sparse_types" if name == "sparse" else "Tdense")
        if len(op.attr(f"{name}_keys")) != len(types):
            raise ValueError(f"{len(op.attr(f'{name}_keys'))} {name}_keys for {len(types)} types")
    return _sparse_shapes(op, 1) + _dense_shapes(op, ())


def _example_shape(op: Operation) -> list[Dims]:
    """Of one example, or of a vector of them."""
    serialized = op.input_dims(0)
    if serialized is not None and len(serialized) > 1:
        raise ValueError(f"serialized must be a scalar or a vector, got {show(serialized)}")
    for i, name in ((2, "sparse_keys"), (3, "dense_keys"), (4, "ragged_keys")):
        with_rank(op.input_dims(i), 1, name)
    ragged = len(op.attr("ragged_value_types"))
    if ragged != len(op.attr("ragged_split_types")):
        raise ValueError(f"{ragged} ragged_value_types but {len(op.attr('ragged_split_types'))} "
                         "ragged_split_types")
    rows: list[Dims] = [(None,)] * (2 * ragged)
    if serialized is None:
        dense: list[Dims] = [None] * len(_dense_shapes(op, ()))
        return _sparse_shapes(op, None) + dense + rows
    return _sparse_shapes(op, 1 + len(serialized)) + _dense_shapes(op, serialized) + rows


_OUTPUTS = ("sparse_indices: num_sparse * int64; sparse_values: sparse_types; "
            "sparse_shapes: num_sparse * int64; dense_values: Tdense")
register_op(
    "ParseExampleV2",
    "serialized: string; names: string; sparse_keys: string; dense_keys: string; "
    "ragged_keys: string; dense_defaults: Tdense",
    f"{_OUTPUTS}; ragged_values: ragged_value_types; ragged_row_splits: ragged_split_types",
    f"Tdense: list({_VALUES}) >= 0; num_sparse: int >= 0; sparse_types: list({_VALUES}) >= 0; "
    f"ragged_value_types: list({_VALUES}) >= 0; "
    "ragged_split_types: list({int32, int64}) >= 0; dense_shapes: list(shape) >= 0",
    shape=_example_shape)
register_op(
    "ParseSingleExample", "serialized: string; dense_defaults: Tdense", _OUTPUTS,
    "num_sparse: int >= 0; sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; "
    f"sparse_types: list({_VALUES}) >= 0; Tdense: list({_VALUES}) >= 0; "
    "dense_shapes: list(shape) >= 0", shape=_single_shape)
not_differentiable("ParseExampleV2", "ParseSingleExample")
