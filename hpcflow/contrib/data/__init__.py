"""``hpcflow.contrib.data``: the names that ``data.experimental`` had before 1.13."""

from __future__ import annotations

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.data.transformations import (
    reduce_dataset,
    sliding_window_batch,
    sloppy_interleave,
)
from hpcflow.data import (
    Dataset,
    FixedLengthRecordDataset,
    Iterator,
    TextLineDataset,
    TFRecordDataset,
)
from hpcflow.data.experimental import *  # noqa: F403
from hpcflow.train.saved_iterators import (
    CheckpointInputPipelineHook,
    make_saveable_from_iterator,
)

__getattr__ = named_otherwise(__name__)
