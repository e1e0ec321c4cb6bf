"""``keras.preprocessing``: images, sequences and texts as arrays."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.preprocessing import image, sequence, text

__all__ = ["image", "sequence", "text"]


__getattr__ = named_otherwise(__name__)
