"""``hpcflow.contrib.distributions.bijectors``: functions with an inverse and a determinant."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.distributions.bijectors.base import Bijector
from hpcflow.contrib.distributions.bijectors.composed import Chain, Inline, Invert
from hpcflow.contrib.distributions.bijectors.curves import (
    Gumbel,
    Kumaraswamy,
    PowerTransform,
    SinhArcsinh,
    Softsign,
    Square,
)
from hpcflow.contrib.distributions.bijectors.flows import (
    BatchNormalization,
    MaskedAutoregressiveFlow,
    RealNVP,
    masked_autoregressive_default_template,
    masked_dense,
    real_nvp_default_template,
)
from hpcflow.contrib.distributions.bijectors.matrices import (
    AbsoluteValue,
    AffineLinearOperator,
    CholeskyOuterProduct,
    FillTriangular,
    MatrixInverseTriL,
    ScaleTriL,
    TransformDiagonal,
)
from hpcflow.contrib.distributions.bijectors.scalars import (
    AffineScalar,
    Exp,
    Identity,
    Sigmoid,
    Softplus,
)
from hpcflow.contrib.distributions.bijectors.simplex import Ordered, SoftmaxCentered
from hpcflow.contrib.distributions.bijectors.vectors import Affine, Permute, Reshape

__all__ = ["AbsoluteValue", "Affine", "AffineLinearOperator", "AffineScalar",
           "BatchNormalization", "Bijector", "Chain", "CholeskyOuterProduct", "Exp",
           "FillTriangular", "Gumbel", "Identity", "Inline", "Invert", "Kumaraswamy",
           "MaskedAutoregressiveFlow", "MatrixInverseTriL", "Ordered", "Permute",
           "PowerTransform", "RealNVP", "Reshape", "ScaleTriL", "Sigmoid", "SinhArcsinh",
           "SoftmaxCentered", "Softplus", "Softsign", "Square", "TransformDiagonal",
           "masked_autoregressive_default_template", "masked_dense", "real_nvp_default_template"]

__getattr__ = named_otherwise(__name__)
