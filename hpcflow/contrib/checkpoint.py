"""``contrib.checkpoint``: checkpoints of objects. Lists and dicts need no classes of their own."""

from hpcflow.train.object_checkpoint import Checkpoint, CheckpointManager

List, Mapping = list, dict

__all__ = ["Checkpoint", "CheckpointManager", "List", "Mapping"]
