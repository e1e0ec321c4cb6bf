"""``keras.preprocessing``: sequences and texts as arrays."""

from hpcflow.keras.preprocessing import sequence, text

__all__ = ["sequence", "text"]
