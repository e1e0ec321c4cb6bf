"""``hpcflow.contrib.distributions.bijectors``: functions with an inverse and a determinant."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.distributions.bijectors.base import Bijector
from hpcflow.contrib.distributions.bijectors.composed import Chain, Inline, Invert
from hpcflow.contrib.distributions.bijectors.scalars import (
    AffineScalar,
    Exp,
    Identity,
    Sigmoid,
    Softplus,
)
from hpcflow.contrib.distributions.bijectors.vectors import Affine, Permute, Reshape

__all__ = ["Affine", "AffineScalar", "Bijector", "Chain", "Exp", "Identity", "Inline", "Invert",
           "Permute", "Reshape", "Sigmoid", "Softplus"]

__getattr__ = named_otherwise(__name__)
