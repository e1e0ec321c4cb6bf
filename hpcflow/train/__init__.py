"""Training: optimizers, checkpoints, clusters and servers (``hpcflow.train``)."""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.base.late_names import named_otherwise
from hpcflow.framework.cluster_spec import ClusterSpec
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.metagraph.meta_graph import export_meta_graph
from hpcflow.optimizers import *  # noqa: F403
from hpcflow.train.batching import (
    batch,
    batch_join,
    maybe_batch,
    maybe_batch_join,
    maybe_shuffle_batch,
    maybe_shuffle_batch_join,
    shuffle_batch,
    shuffle_batch_join,
)
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import (
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    update_checkpoint_state,
)
from hpcflow.train.coordinator import Coordinator, LooperThread
from hpcflow.train.device_setter import replica_device_setter
from hpcflow.train.hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    StopAtStepHook,
)
from hpcflow.train.input_producers import (
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from hpcflow.train.monitored_session import (
    MonitoredSession,
    MonitoredTrainingSession,
    SingularMonitoredSession,
)
from hpcflow.train.object_checkpoint import Checkpoint, CheckpointManager
from hpcflow.train.preemption import PreemptionHook, preemption_requested, save_and_exit
from hpcflow.train.quantize_training import do_quantize_training_on_graphdef
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
from hpcflow.train.saver import Saver, import_meta_graph
from hpcflow.train.saving_hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    StepCounterHook,
    SummarySaverHook,
)
from hpcflow.train.scaffold import Scaffold
from hpcflow.train.server import Server
from hpcflow.train.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from hpcflow.train.session_manager import SessionManager
from hpcflow.train.step_timer import SecondOrStepTimer
from hpcflow.train.supervisor import Supervisor, basic_train_loop
from hpcflow.train.sync_replicas import SyncReplicasOptimizer
from hpcflow.train.training_util import summary_iterator, write_graph
from hpcflow.train.vocabularies import VocabInfo
from hpcflow.train.warm_starting import WarmStartSettings, init_from_checkpoint, warm_start

# Protobuf classes, loaded when first used: those that tensorboard has, and those made here.
_TENSORBOARD = {"ClusterDef": "cluster", "JobDef": "cluster", "SaverDef": "saver"}
_MADE_HERE = (
    "BytesList", "Example", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList",
    "Int64List", "SequenceExample", "ServerDef",
)  # fmt: skip


_named_otherwise = named_otherwise(__name__)


def __getattr__(name: str) -> Any:
    if name in _TENSORBOARD:
        module = importlib.import_module(f"tensorboard.compat.proto.{_TENSORBOARD[name]}_pb2")
        value: Any = getattr(module, name)
    elif name in _MADE_HERE:
        from hpcflow.base.formats.protos import message_class

        value = message_class(name)
    else:
        value = _named_otherwise(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_TENSORBOARD, *_MADE_HERE})
