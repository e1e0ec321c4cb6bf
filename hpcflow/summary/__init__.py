"""Summaries for TensorBoard: operations that make them, and the writer of event files."""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.base.late_names import named_otherwise
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

_named_otherwise = named_otherwise(__name__)


def __getattr__(name: str) -> Any:
    if name not in _PROTOS:
        return _named_otherwise(name)
    module = importlib.import_module(f"tensorboard.compat.proto.{_PROTOS[name]}_pb2")
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_PROTOS})
