"""``keras.experimental``: layers that read columns of sequences."""

from hpcflow.keras.layers.features import SequenceFeatures

__all__ = ["SequenceFeatures"]
