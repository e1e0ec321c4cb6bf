"""``keras.wrappers``: models as objects of other libraries."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.wrappers import scikit_learn

__all__ = ["scikit_learn"]


__getattr__ = named_otherwise(__name__)
