"""``python.keras.utils.losses_utils``: ways to reduce the losses of examples to a number."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.keras.losses import reduced


class ReductionV2:
    """Names of the reductions that losses of Keras take."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all of them."""
        return cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ``ValueError`` for another name."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}.")


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
