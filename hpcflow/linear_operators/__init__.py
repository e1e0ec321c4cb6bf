"""``hpcflow.linalg.LinearOperator`` and its kinds: matrices by what is special about them."""

from hpcflow.linear_operators.base import LinearOperator
from hpcflow.linear_operators.blocks import (
    LinearOperatorBlockDiag,
    LinearOperatorComposition,
    LinearOperatorKronecker,
)
from hpcflow.linear_operators.circulant import LinearOperatorCirculant
from hpcflow.linear_operators.dense import LinearOperatorFullMatrix, LinearOperatorLowerTriangular
from hpcflow.linear_operators.diagonal import (
    LinearOperatorDiag,
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from hpcflow.linear_operators.low_rank import LinearOperatorHouseholder, LinearOperatorLowRankUpdate
from hpcflow.linear_operators.turned import LinearOperatorAdjoint, LinearOperatorInversion

__all__ = [
    "LinearOperator", "LinearOperatorAdjoint", "LinearOperatorBlockDiag",
    "LinearOperatorCirculant", "LinearOperatorComposition", "LinearOperatorDiag",
    "LinearOperatorFullMatrix", "LinearOperatorHouseholder", "LinearOperatorIdentity",
    "LinearOperatorInversion", "LinearOperatorKronecker", "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular", "LinearOperatorScaledIdentity", "LinearOperatorZeros",
]  # fmt: skip
