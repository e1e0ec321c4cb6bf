"""Summaries for TensorBoard: operations that make them, and the writer of event files."""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.ops.io.summary import (
    audio,
    get_summary_description,
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from hpcflow.summary.writer import FileWriter, FileWriterCache

# Protobuf classes, loaded when first used.
_PROTOS = {
    "Event": "event", "SessionLog": "event", "TaggedRunMetadata": "event", "Summary": "summary",
    "SummaryDescription": "summary",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PROTOS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module = importlib.import_module(f"tensorboard.compat.proto.{_PROTOS[name]}_pb2")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_PROTOS})
