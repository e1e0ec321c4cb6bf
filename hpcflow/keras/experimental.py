"""``keras.experimental``: layers that read columns of sequences."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.layers.features import SequenceFeatures

__all__ = ["SequenceFeatures"]


__getattr__ = named_otherwise(__name__)
