"""``keras.experimental``: layers that read columns of sequences, learning rates by cosines."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.layers.features import SequenceFeatures
from hpcflow.keras.optimizers.schedules import (
    CosineDecay,
    CosineDecayRestarts,
    LinearCosineDecay,
    NoisyLinearCosineDecay,
)

__all__ = ["CosineDecay", "CosineDecayRestarts", "LinearCosineDecay", "NoisyLinearCosineDecay",
           "SequenceFeatures"]


__getattr__ = named_otherwise(__name__)
