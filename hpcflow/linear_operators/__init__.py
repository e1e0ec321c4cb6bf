"""``hpcflow.linalg.LinearOperator`` and its kinds: matrices by what is special about them."""

from hpcflow.linear_operators import products
from hpcflow.linear_operators.base import LinearOperator
from hpcflow.linear_operators.blocks import (
    LinearOperatorBlockDiag,
    LinearOperatorComposition,
    LinearOperatorKronecker,
)
from hpcflow.linear_operators.circulant import (
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
    LinearOperatorToeplitz,
)
from hpcflow.linear_operators.dense import LinearOperatorFullMatrix, LinearOperatorLowerTriangular
from hpcflow.linear_operators.diagonal import LinearOperatorDiag
from hpcflow.linear_operators.identities import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from hpcflow.linear_operators.low_rank import LinearOperatorHouseholder, LinearOperatorLowRankUpdate
from hpcflow.linear_operators.turned import LinearOperatorAdjoint, LinearOperatorInversion

__all__ = [
    "LinearOperator", "LinearOperatorAdjoint", "LinearOperatorBlockDiag",
    "LinearOperatorCirculant", "LinearOperatorCirculant2D", "LinearOperatorCirculant3D",
    "LinearOperatorComposition", "LinearOperatorDiag",
    "LinearOperatorFullMatrix", "LinearOperatorHouseholder", "LinearOperatorIdentity",
    "LinearOperatorInversion", "LinearOperatorKronecker", "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular", "LinearOperatorScaledIdentity",
    "LinearOperatorToeplitz", "LinearOperatorZeros", "products",
]  # fmt: skip
