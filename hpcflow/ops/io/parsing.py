"""Op types that parse strings: raw bytes, CSV, JSON, tensors, examples."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hpcflow.base.keywords import also_called, also_ordered
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    known_number,
    scalar,
    show,
    unchanged,
    unknown,
    with_rank,
    with_rank_at_most,
)

__all__ = ["decode_csv", "decode_json_example", "decode_raw", "parse_tensor"]

_VALUES = "{float, int64, string}"


def _raw_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    return [None if dims is None else (*dims, None)]


def _csv_shape(op: Operation) -> list[Dims]:
    for position in range(1, len(op.inputs)):
        dims = with_rank_at_most(op.input_dims(position), 1, op.op_def.inputs[1].name)
        if dims and dims[0] not in (None, 0, 1):
            raise ValueError("Shape of a default must be a length-0 or length-1 vector, or a "
                             f"scalar, got {show(dims)}")
    return unchanged(op)


def _tensor_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "serialized")
    return unknown(op)


def _sparse_shapes(count: int, rank: int) -> list[Dims]:
    """Indices, values, shapes of sparse results."""
    shapes: list[Dims] = [(None, rank)] * count
    return [*shapes, *[(None,)] * count, *[(rank,)] * count]


def _example_shape(op: Operation) -> list[Dims]:
    batch = with_rank(op.input_dims(0), 1, "serialized")
    with_rank(op.input_dims(1), 1, "names")
    shapes = op.attr("dense_shapes")
    if len(shapes) != op.attr("Ndense"):
        raise ValueError(f"{op.attr('Ndense')} dense features but {len(shapes)} dense_shapes")
    dense = []
    for key, shape in enumerate(shapes):
        dims = shape._dims
        if dims is None or None in dims[1:]:
            raise ValueError(f"dense_shapes[{key}] must be known but for its first dimension, got "
                             f"{show(dims)}")
        dense.append((*batch, *dims))
    return _sparse_shapes(op.attr("Nsparse"), 2) + dense


def _sequence_example_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "serialized")
    with_rank(op.input_dims(1), 1, "feature_list_dense_missing_assumed_empty")
    return _sequence_dims(op, ())


def _sequence_examples_shape(op: Operation) -> list[Dims]:
    batch = with_rank(op.input_dims(0), 1, "serialized")
    with_rank(op.input_dims(1), 1, "debug_name")
    return [*_sequence_dims(op, batch), *[batch] * op.attr("Nfeature_list_dense")]


def _sequence_dims(op: Operation, batch: tuple) -> list[Dims]:
    context, lists = op.attr("context_dense_shapes"), op.attr("feature_list_dense_shapes")
    for what, shapes in (("context_dense", context), ("feature_list_dense", lists)):
        if len(shapes) != op.attr(f"N{what}"):
            raise ValueError(f"{op.attr(f'N{what}')} {what} features but {len(shapes)} shapes")
        if not all(shape.is_fully_defined() for shape in shapes):
            raise ValueError(f"{what}_shapes must be fully defined, got {shapes}")
    rank = len(batch) + 1
    return [*_sparse_shapes(op.attr("Ncontext_sparse"), rank), *[(*batch, *s._dims)
                                                                for s in context],
            *_sparse_shapes(op.attr("Nfeature_list_sparse"), rank + 1),
            *[(*batch, None, *s._dims) for s in lists]]


register_op("DecodeRaw", "bytes: string", "output: out_type",
            "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, "
            "complex64, complex128, bool, bfloat16}; little_endian: bool = true", shape=_raw_shape)
# All but the first two attributes came after 1.0; graphs of later versions have them.
register_op("DecodeCSV", "records: string; record_defaults: OUT_TYPE", "output: OUT_TYPE",
            "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; "
            "field_delim: string = ','; use_quote_delim: bool = true; na_value: string = ''; "
            "select_cols: list(int) = []",
            shape=_csv_shape)
register_op("DecodeJSONExample", "json_examples: string", "binary_examples: string",
            shape=unchanged)
register_op("ParseTensor", "serialized: string", "output: out_type", "out_type: type",
            shape=_tensor_shape)
register_op(
    "ParseExample",
    "serialized: string; names: string; sparse_keys: Nsparse * string; "
    "dense_keys: Ndense * string; dense_defaults: Tdense",
    "sparse_indices: Nsparse * int64; sparse_values: sparse_types; "
    "sparse_shapes: Nsparse * int64; dense_values: Tdense",
    f"Nsparse: int >= 0; Ndense: int >= 0; sparse_types: list({_VALUES}) >= 0; "
    f"Tdense: list({_VALUES}) >= 0; dense_shapes: list(shape) >= 0", shape=_example_shape)
_SEQUENCE_RESULTS = (
    "context_sparse_indices: Ncontext_sparse * int64; "
    "context_sparse_values: context_sparse_types; "
    "context_sparse_shapes: Ncontext_sparse * int64; context_dense_values: Tcontext_dense; "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64; "
    "feature_list_sparse_values: feature_list_sparse_types; "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64; "
    "feature_list_dense_values: feature_list_dense_types")
_ANY_SEQUENCE = (
    "Ncontext_sparse: int >= 0 = 0; "
    "Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0; "
    f"context_sparse_types: list({_VALUES}) >= 0 = []; "
    f"Tcontext_dense: list({_VALUES}) >= 0 = []; "
    f"feature_list_dense_types: list({_VALUES}) >= 0 = []; "
    "context_dense_shapes: list(shape) >= 0 = []; "
    f"feature_list_sparse_types: list({_VALUES}) >= 0 = []; "
    "feature_list_dense_shapes: list(shape) >= 0 = []")
_SEQUENCE_ATTRIBUTES = f"Ncontext_dense: int >= 0 = 0; {_ANY_SEQUENCE}"
register_op(
    "ParseSingleSequenceExample",
    "serialized: string; feature_list_dense_missing_assumed_empty: string; "
    "context_sparse_keys: Ncontext_sparse * string; context_dense_keys: Ncontext_dense * string; "
    "feature_list_sparse_keys: Nfeature_list_sparse * string; "
    "feature_list_dense_keys: Nfeature_list_dense * string; "
    "context_dense_defaults: Tcontext_dense; debug_name: string",
    _SEQUENCE_RESULTS, _SEQUENCE_ATTRIBUTES, shape=_sequence_example_shape)
register_op(
    "ParseSequenceExample",
    "serialized: string; debug_name: string; context_dense_defaults: Tcontext_dense",
    f"{_SEQUENCE_RESULTS}; feature_list_dense_lengths: Nfeature_list_dense * int64",
    "feature_list_dense_missing_assumed_empty: list(string) >= 0; "
    "context_sparse_keys: list(string) >= 0; context_dense_keys: list(string) >= 0; "
    "feature_list_sparse_keys: list(string) >= 0; feature_list_dense_keys: list(string) >= 0; "
    f"{_SEQUENCE_ATTRIBUTES}", shape=_sequence_examples_shape)
register_op(
    "ParseSequenceExampleV2",
    "serialized: string; debug_name: string; context_sparse_keys: string; "
    "context_dense_keys: string; context_ragged_keys: string; feature_list_sparse_keys: string; "
    "feature_list_dense_keys: string; feature_list_ragged_keys: string; "
    "feature_list_dense_missing_assumed_empty: bool; context_dense_defaults: Tcontext_dense",
    "context_sparse_indices: Ncontext_sparse * int64; "
    "context_sparse_values: context_sparse_types; "
    "context_sparse_shapes: Ncontext_sparse * int64; context_dense_values: Tcontext_dense; "
    "context_ragged_values: context_ragged_value_types; "
    "context_ragged_row_splits: context_ragged_split_types; "
    "feature_list_sparse_indices: Nfeature_list_sparse * int64; "
    "feature_list_sparse_values: feature_list_sparse_types; "
    "feature_list_sparse_shapes: Nfeature_list_sparse * int64; "
    "feature_list_dense_values: feature_list_dense_types; "
    "feature_list_dense_lengths: Nfeature_list_dense * int64; "
    "feature_list_ragged_values: feature_list_ragged_value_types; "
    "feature_list_ragged_outer_splits: feature_list_ragged_split_types; "
    "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    f"{_ANY_SEQUENCE}; "
    + "; ".join(f"{kind}_ragged_value_types: list({_VALUES}) >= 0 = []; "
                f"{kind}_ragged_split_types: list({{int32, int64}}) >= 0 = []"
                for kind in ("context", "feature_list")), shape=unknown)
register_op("SerializeTensor", "tensor: T", "serialized: string", "T: type", shape=scalar)
register_op("DecodeCompressed", "bytes: string", "output: string", 'compression_type: string = ""',
            shape=unchanged)


def _padded_raw_shape(op: Operation) -> list[Dims]:
    dims, length = op.input_dims(0), known_number(op, 1)
    if dims is None:
        return [None]
    size = op.attr("out_type").np.itemsize
    return [(*dims, None if length is None else int(length) // size)]


register_op("DecodePaddedRaw", "input_bytes: string; fixed_length: int32", "output: out_type",
            "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; "
            "little_endian: bool = true", shape=_padded_raw_shape)
not_differentiable("SerializeTensor", "DecodeCompressed", "DecodePaddedRaw")
not_differentiable("DecodeRaw", "DecodeCSV", "DecodeJSONExample", "ParseTensor", "ParseExample",
                   "ParseSingleSequenceExample", "ParseSequenceExample", "ParseSequenceExampleV2")


@also_called(input_bytes="bytes")
def decode_raw(bytes: TensorLike, out_type: DTypeLike, little_endian: bool | None = None,
               name: str | None = None, *, fixed_length: TensorLike | None = None) -> Tensor:
    """Return the numbers whose memory the strings `bytes` hold, in a last dimension of their own.

    All strings have one length, or `fixed_length` is given: then shorter ones are followed by
    zeros, and longer ones are cut. Raises (when run) ``InvalidArgumentError`` otherwise, or if the
    length is no multiple of the size of `out_type`.
    """
    if fixed_length is not None:
        return raw_ops.DecodePaddedRaw(bytes, fixed_length, out_type=out_type,
                                       little_endian=little_endian, name=name)
    return raw_ops.DecodeRaw(bytes, out_type=out_type, little_endian=little_endian, name=name)


@also_ordered("use_quote_delim", "name", "na_value", "select_cols")
def decode_csv(records: TensorLike, record_defaults: Tensor, field_delim: str | None = None,
               name: str | None = None, use_quote_delim: bool = True, na_value: str = "",
               select_cols: Any = None) -> list[Tensor]:
    """Split CSV records (RFC 4180, without headers) into fields, a tensor each.

    Args:
        records: strings of any shape, a record each; the results have this shape.
        record_defaults: per field a tensor or value of its type (a float, int32, int64 or string):
            with one element, the value of empty fields; with none, the field is required.
        field_delim: what separates fields, one character (``,``).
        name: name of the op.
        use_quote_delim: whether quotes enclose fields; otherwise they are ordinary characters.
        na_value: a text that stands for an empty field.
        select_cols: numbers of the fields that `record_defaults` are for, in rising order; all
            fields if None.

    Raises ``ValueError`` for other `select_cols`; (when run) ``InvalidArgumentError`` for records
    with another number of fields, fields that are no such numbers, required fields that are empty,
    and misplaced quotes.
    """
    columns = list(select_cols or ())
    if any(b <= a for a, b in pairwise(columns)):
        raise ValueError(f"select_cols is not strictly increasing. They are {columns}")
    if columns and columns[0] < 0:
        raise ValueError(f"select_cols contains negative values. They are {columns}")
    if columns and len(columns) != len(record_defaults):
        raise ValueError("Length of select_cols and record_defaults do not match. "
                         f"They are {len(columns)} and {len(record_defaults)}.")
    return raw_ops.DecodeCSV(records, record_defaults, field_delim=field_delim,
                             use_quote_delim=use_quote_delim, na_value=na_value,
                             select_cols=columns, name=name)


def decode_json_example(json_examples: TensorLike, name: str | None = None) -> Tensor:
    """Return serialized ``Example`` messages for strings that hold them as JSON.

    Raises (when run) ``InvalidArgumentError`` for what is no example in JSON.
    """
    return raw_ops.DecodeJSONExample(json_examples, name=name)


def parse_tensor(serialized: TensorLike, out_type: DTypeLike, name: str | None = None) -> Tensor:
    """Return the tensor of type `out_type` that a serialized ``TensorProto`` holds.

    Raises (when run) ``InvalidArgumentError`` for another type, or what is no such message.
    """
    return raw_ops.ParseTensor(serialized, out_type=out_type, name=name)
