"""Ops that bring the words of an old vocabulary, and a matrix by them, into the order of a new one.
"""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import with_rank

__all__: list[str] = []


def _remapping_shapes(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 0, "new_vocab_file")
    with_rank(op.input_dims(1), 0, "old_vocab_file")
    return [(op.attr("num_new_vocab"),), ()]


def _matrix_shape(op: Operation) -> list[Dims]:
    for i, rank in enumerate((None, 0, 1, 1, 1)):
        if rank is not None:
            with_rank(op.input_dims(i), rank, op.op_def.inputs[i].name)
    return [(op.attr("num_rows"), op.attr("num_cols"))]


register_op("GenerateVocabRemapping", "new_vocab_file: string; old_vocab_file: string",
            "remapping: int64; num_present: int32",
            "new_vocab_offset: int >= 0; num_new_vocab: int >= 0; old_vocab_size: int >= -1 = -1",
            shape=_remapping_shapes)
register_op("LoadAndRemapMatrix",
            "ckpt_path: string; old_tensor_name: string; row_remapping: int64; "
            "col_remapping: int64; initializing_values: float", "output_matrix: float",
            "num_rows: int >= 0; num_cols: int >= 1; max_rows_in_memory: int = -1",
            shape=_matrix_shape, stateful=True)
not_differentiable("GenerateVocabRemapping", "LoadAndRemapMatrix")
