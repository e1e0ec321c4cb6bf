"""Text of one encoding in another, and as code points."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import unchanged, with_rank
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []


def _decode_shape(op: Operation) -> list[Dims]:
    """Row splits of the flat input, then as many values as there are characters."""
    dims = op.input_dims(0)
    size = None
    if dims is not None and None not in dims:
        size = 1
        for dim in dims:
            size *= dim or 0
    found: list[Dims] = [(None if size is None else size + 1,), (None,), (None,)]
    return found[: len(op.outputs)]


def _encode_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "input_values")
    count = with_rank(op.input_dims(1), 1, "input_splits")[0]
    return [(None if count is None else max(count - 1, 0),)]


_ERRORS = "errors: {'strict', 'replace', 'ignore'} = 'replace'; replacement_char: int = 65533"
_READ = f"input_encoding: string; {_ERRORS}; replace_control_characters: bool = false"
_OUT = "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}"
_SPLITS = f"Tsplits: {INDEX} = int64"
register_op("UnicodeTranscode", "input: string", "output: string", f"{_READ}; {_OUT}",
            shape=unchanged)
register_op("UnicodeDecode", "input: string", "row_splits: Tsplits; char_values: int32",
            f"{_READ}; {_SPLITS}", shape=_decode_shape)
register_op("UnicodeDecodeWithOffsets", "input: string",
            "row_splits: Tsplits; char_values: int32; char_to_byte_starts: int64",
            f"{_READ}; {_SPLITS}", shape=_decode_shape)
register_op("UnicodeEncode", "input_values: int32; input_splits: Tsplits", "output: string",
            "errors: {'ignore', 'replace', 'strict'} = 'replace'; "
            f"{_OUT}; replacement_char: int = 65533; {_SPLITS}", shape=_encode_shape)
not_differentiable("UnicodeTranscode", "UnicodeDecode", "UnicodeDecodeWithOffsets",
                   "UnicodeEncode")
