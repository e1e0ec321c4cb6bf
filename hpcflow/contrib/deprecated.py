"""``hpcflow.contrib.deprecated``: summaries by the functions that programs for 0.x called.

Their tags are what is given, not the names of the operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


def _collected(summary: Tensor, collections: Sequence[str] | None) -> Tensor:
    for key in [GraphKeys.SUMMARIES] if collections is None else collections:
        add_to_collection(key, summary)
    return summary


def scalar_summary(tags: TensorLike, values: TensorLike, collections: Sequence[str] | None = None,
                   name: str | None = None) -> Tensor:
    """Return a summary of numbers, each under its tag; of the same shape."""
    return _collected(raw_ops.ScalarSummary(convert_to_tensor(tags), convert_to_tensor(values),
                                            name=name or "ScalarSummary"), collections)


def histogram_summary(tag: TensorLike, values: TensorLike,
                      collections: Sequence[str] | None = None,
                      name: str | None = None) -> Tensor:
    """Return a summary of the distribution of numbers."""
    return _collected(raw_ops.HistogramSummary(convert_to_tensor(tag), convert_to_tensor(values),
                                               name=name or "HistogramSummary"), collections)


def image_summary(tag: TensorLike, tensor: TensorLike, max_images: int = 3,
                  collections: Sequence[str] | None = None, name: str | None = None) -> Tensor:
    """Return a summary of images ``[batch, height, width, channels]``."""
    return _collected(raw_ops.ImageSummary(convert_to_tensor(tag), convert_to_tensor(tensor),
                                           max_images=max_images, name=name or "ImageSummary"),
                      collections)


def audio_summary(tag: TensorLike, tensor: TensorLike, sample_rate: TensorLike,
                  max_outputs: int = 3, collections: Sequence[str] | None = None,
                  name: str | None = None) -> Tensor:
    """Return a summary of sounds ``[batch, frames]`` or ``[batch, frames, channels]``."""
    rate = convert_to_tensor(sample_rate, dtype=np.float32)
    return _collected(raw_ops.AudioSummaryV2(convert_to_tensor(tag), convert_to_tensor(tensor),
                                             rate, max_outputs=max_outputs,
                                             name=name or "AudioSummary"), collections)


def merge_summary(inputs: Sequence[Tensor], collections: Sequence[str] | None = None,
                  name: str | None = None) -> Tensor:
    """Return one summary of several; it is collected where that is said."""
    return _collected(raw_ops.MergeSummary(list(inputs), name=name or "MergeSummary"),
                      collections or ())


def merge_all_summaries(key: str = GraphKeys.SUMMARIES) -> Tensor | None:
    """Return one summary of all that are collected; None without any."""
    found: list[Any] = get_collection(key)
    return merge_summary(found) if found else None
