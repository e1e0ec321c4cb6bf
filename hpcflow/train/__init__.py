"""Training: optimizers, checkpoints, clusters and servers (``hpcflow.train``)."""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.optimizers import *  # noqa: F403
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import (
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    update_checkpoint_state,
)
from hpcflow.train.cluster_spec import ClusterSpec
from hpcflow.train.coordinator import Coordinator, LooperThread
from hpcflow.train.device_setter import replica_device_setter
from hpcflow.train.meta_graph import export_meta_graph
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
from hpcflow.train.saver import Saver, import_meta_graph
from hpcflow.train.server import Server
from hpcflow.train.training_util import summary_iterator, write_graph

# Protobuf classes, loaded when first used: those that tensorboard has, and those made here.
_TENSORBOARD = {"ClusterDef": "cluster", "JobDef": "cluster", "SaverDef": "saver"}
_MADE_HERE = (
    "BytesList", "Example", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList",
    "Int64List", "SequenceExample", "ServerDef",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _TENSORBOARD:
        module = importlib.import_module(f"tensorboard.compat.proto.{_TENSORBOARD[name]}_pb2")
        value: Any = getattr(module, name)
    elif name in _MADE_HERE:
        from hpcflow.train.protos import message_class

        value = message_class(name)
    else:
        raise AttributeError(f"module 'hpcflow.train' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_TENSORBOARD, *_MADE_HERE})
