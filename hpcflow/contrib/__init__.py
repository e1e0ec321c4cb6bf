"""Parts of the 1.x API outside its core: ``layers``, ``legacy_seq2seq``, ``lookup``, ``rnn``, ...
"""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.base.late_names import named_otherwise

_MODULES = ("autograph", "checkpoint", "cluster_resolver", "compiler", "copy_graph", "crf",
            "cudnn_rnn", "data", "deprecated", "distribute", "distributions", "eager", "estimator",
            "factorization", "feature_column", "framework", "graph_editor", "image", "keras",
            "layers", "learn", "legacy_seq2seq", "linalg", "lookup", "losses", "metrics",
            "model_pruning", "nn", "opt", "optimizer_v2", "predictor", "quantize", "resampler",
            "rnn", "saved_model", "seq2seq", "sharded", "signal", "slim", "sparsemax", "staging",
            "stateless", "summary", "tensorboard", "tfprof", "tpu", "training", "util")

_named_otherwise = named_otherwise(__name__)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        return _named_otherwise(name)
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
