"""The kernel of RecordInput."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcflow.kernels.common.background import in_background
from hpcflow.kernels.common.text import string_array
from hpcflow.kernels.io.readers import TFRecords
from hpcflow.kernels.registry import ASYNC, KernelNode, invalid, kernel
from hpcflow.resources.record_inputs import RecordInput


def _made(node: KernelNode) -> RecordInput:
    sizes = {name: node.attr(name) for name in ("file_buffer_size", "file_parallelism",
                                                "batch_size")}
    for name, size in sizes.items():
        if size < 1:
            raise invalid(f"{name} must be at least 1, got {size}")
    compression = node.attr("compression_type").decode()
    if compression not in ("", "GZIP", "ZLIB"):
        raise invalid(f"Unsupported compression_type: {compression}.")
    return RecordInput(
        node.attr("file_pattern").decode(), TFRecords(compression), sizes["file_buffer_size"],
        sizes["file_parallelism"], node.attr("file_shuffle_shift_ratio"),
        node.attr("file_random_seed"))


@kernel("RecordInput", device="CPU", mode=ASYNC)
def _record_input(node: KernelNode) -> Callable:
    """The place in the files belongs to the operation, in every session."""
    count = node.attr("batch_size")
    source = node.resources.lookup_or_create("", "record input", node.name, lambda: _made(node))

    def read() -> np.ndarray:
        return string_array(source.take(count))

    return in_background(read)
