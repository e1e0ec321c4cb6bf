"""``contrib.checkpoint``: checkpoints of objects. Lists and dicts need no classes of their own."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.base.tracking import NoDependency
from hpcflow.train.object_checkpoint import Checkpoint, CheckpointManager

List, Mapping = list, dict

__all__ = ["Checkpoint", "CheckpointManager", "List", "Mapping", "NoDependency"]

__getattr__ = named_otherwise(__name__)
