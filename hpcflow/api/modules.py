"""Modules that the package has under public paths of their own, and its protobuf classes."""

from __future__ import annotations

import importlib
from typing import Any

#: Attributes of the package that are modules, loaded on first use so that importing it stays fast.
LAZY = {
    "app": "hpcflow.platform.app",
    "audio": "hpcflow.ops.io.audio",
    "autograph": "hpcflow.contrib.autograph",
    "compat": "hpcflow.compat",
    "data": "hpcflow.data",
    "contrib": "hpcflow.contrib",
    "core": "hpcflow.core",
    "distribute": "hpcflow.distribute",
    "distributions": "hpcflow.distributions",
    "estimator": "hpcflow.estimator",
    "examples": "hpcflow.examples",
    "feature_column": "hpcflow.feature_column",
    "framework": "hpcflow.framework",
    "flags": "hpcflow.platform.flags",
    "gfile": "hpcflow.platform.gfile",
    "keras": "hpcflow.keras",
    "logging": "hpcflow.platform.logging",
    "mpi": "hpcflow.mpi",
    "nest": "hpcflow.framework.nest",
    "placement": "hpcflow.placement",
    "profiler": "hpcflow.profiler",
    "python": "hpcflow.python",
    "python_io": "hpcflow.platform.python_io",
    "resource_loader": "hpcflow.platform.resource_loader",
    "saved_model": "hpcflow.saved_model",
    "tpu": "hpcflow.contrib.tpu",
    "train": "hpcflow.train",
    "summary": "hpcflow.summary",
    "nn": "hpcflow.nn",
    "image": "hpcflow.image",
    "sets": "hpcflow.ops.sparse.sets",
    "signal": "hpcflow.signal",
    "spectral": "hpcflow.signal.spectral",
    "graph_util": "hpcflow.graph_util",
    "losses": "hpcflow.losses",
    "test": "hpcflow.test_util",
    "metrics": "hpcflow.metrics",
    "layers": "hpcflow.layers",
    "user_ops": "hpcflow.user_ops",
}

#: Public module paths whose modules are in another room.
ELSEWHERE = {
    **{f"hpcflow.{name}": path for name, path in LAZY.items() if path != f"hpcflow.{name}"},
    "hpcflow.autograph.experimental": "hpcflow.contrib.autograph.experimental",
    "hpcflow.compat": "hpcflow.api.compat",
    "hpcflow.compat.v1": "hpcflow.api.compat.v1",
    "hpcflow.compat.v2": "hpcflow.api.compat.v2",
    "hpcflow.python.platform.tf_logging": "hpcflow.platform.logging",
    "hpcflow.io.gfile": "hpcflow.platform.gfile",
    "hpcflow.user_ops": "hpcflow.ops.compat.user_ops",
    "hpcflow.estimator.tpu": "hpcflow.contrib.tpu",
    "hpcflow.nn.rnn_cell": "hpcflow.contrib.rnn.nn_cells",
}

#: Protobuf classes of the package, by the file of ``tensorboard.compat.proto`` that has them.
PROTOS = {
    "AttrValue": "attr_value", "ConfigProto": "config", "Event": "event", "GPUOptions": "config",
    "GraphDef": "graph", "GraphOptions": "config", "HistogramProto": "histogram",
    "LogMessage": "event", "NameAttrList": "attr_value", "NodeDef": "node_def",
    "OptimizerOptions": "config", "RunMetadata": "config", "RunOptions": "config",
    "SessionLog": "event", "Summary": "summary", "SummaryMetadata": "summary",
    "TensorInfo": "meta_graph",
    "MetaGraphDef": "meta_graph",
}  # fmt: skip


def load(name: str) -> Any:
    """Import the module or protobuf class that is the attribute `name` of the package.

    Raises ``KeyError`` where it is neither.
    """
    if name in LAZY:
        return importlib.import_module(LAZY[name])
    return getattr(importlib.import_module(f"tensorboard.compat.proto.{PROTOS[name]}_pb2"), name)
