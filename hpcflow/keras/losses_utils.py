"""``python.keras.utils.losses_utils``: ways to reduce the losses of examples to a number."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.keras.losses import Reduction as ReductionV2
from hpcflow.keras.losses import reduced


def reduce_weighted_loss(weighted_losses: Any,
                         reduction: str = ReductionV2.SUM_OVER_BATCH_SIZE) -> Any:
    """Return the losses themselves, their sum, or their mean, by the name of the reduction."""
    return reduced(weighted_losses, None, reduction)


def compute_weighted_loss(losses: Any, sample_weight: Any = None,
                          reduction: str = ReductionV2.SUM_OVER_BATCH_SIZE,
                          name: str | None = None) -> Any:
    """Return the reduction of `losses` times `sample_weight`, in the type of the losses.

    Raises ``ValueError`` for the name of another reduction.
    """
    ReductionV2.validate(reduction)
    with hf.name_scope(name, "weighted_loss"):
        losses = hf.convert_to_tensor(losses)
        weights = 1.0 if sample_weight is None else sample_weight
        return reduced(losses, hf.convert_to_tensor(weights), reduction)


def scale_loss_for_distribution(loss_value: Any) -> Any:
    """Return the loss: a graph has one replica."""
    return loss_value
