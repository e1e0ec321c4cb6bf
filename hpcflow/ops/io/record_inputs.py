"""Records of files in random order, without queues."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import name_scope
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops

__all__ = ["RecordInput"]


def _batch(op: Operation) -> list[Dims]:
    return [(op.attr("batch_size"),)]


register_op("RecordInput", "", "records: string",
            "file_pattern: string; file_random_seed: int = 301; "
            "file_shuffle_shift_ratio: float = 0; file_buffer_size: int = 10000; "
            "file_parallelism: int = 16; batch_size: int = 32; compression_type: string = ''",
            shape=_batch, stateful=True)
not_differentiable("RecordInput")

def _compression(kind: int | str) -> str:
    """The name of a member of TFRecordCompressionType."""
    return kind if isinstance(kind, str) else ("", "ZLIB", "GZIP")[kind]


class RecordInput:
    """Reads the records of TFRecord files again and again, in random order.

    Every epoch has each record once.

    Args:
        file_pattern: of the files' paths.
        batch_size: how many records a step returns.
        buffer_size: how many records are kept to draw from.
        parallelism: how many files are read in turns.
        shift_ratio: by which share of the files their order moves on with every epoch.
        seed: of the order; 0 for another in every run.
        name: of the operation.
        batches: how many batches there are to be, in a list; None for one, not in a list.
        compression_type: member of ``TFRecordCompressionType``, or its name; None for none.
    """

    def __init__(self, file_pattern: str, batch_size: int = 1, buffer_size: int = 1,
                 parallelism: int = 1, shift_ratio: float = 0, seed: int = 0,
                 name: str | None = None, batches: int | None = None,
                 compression_type: int | str | None = None) -> None:
        self._options: dict[str, Any] = {
            "file_pattern": file_pattern, "file_buffer_size": buffer_size,
            "file_parallelism": parallelism, "file_shuffle_shift_ratio": shift_ratio,
            "batch_size": batch_size * (batches or 1), "file_random_seed": seed,
            "compression_type": _compression(compression_type or 0)}
        self._batches, self._name = batches, name

    def get_yield_op(self) -> Tensor | list[list[Tensor]]:
        """Return the records of one step: a vector of strings, or with `batches` a list of lists
        of scalars."""
        records = raw_ops.RecordInput(**self._options, name=self._name)
        if self._batches is None:
            return records
        with name_scope(self._name):
            scalars = raw_ops.Unpack(records, num=self._options["batch_size"], axis=0)
        scalars = list(scalars) if isinstance(scalars, (list, tuple)) else [scalars]
        return [scalars[i::self._batches] for i in range(self._batches)]
