"""Initializers: functions of a shape that return initial values, for ``get_variable``.

Each is called as ``initializer(shape, dtype=None, partition_info=None)``; `partition_info` is
given for the parts of a partitioned variable and says where the part lies in the whole.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_ordered
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import constant
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.host.tuning import programs as tuning
from hpcflow.ops.arrays import constants
from hpcflow.ops.random import random_ops
from hpcflow.shapes import ShapeLike, TensorShape

if TYPE_CHECKING:
    from hpcflow.ops.state.partitioned import PartitionInfo

__all__ = [
    "constant_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "ones_initializer",
    "orthogonal_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "uniform_unit_scaling_initializer",
    "variance_scaling_initializer",
    "zeros_initializer",
]


class Initializer:
    """Base of the initializers."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        """Return a tensor of `shape` and of `dtype` (the initializer's own if None)."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that :meth:`from_config` makes such an initializer of."""
        names = inspect.signature(type(self)).parameters
        values = {name: vars(self)[name] for name in names if name in vars(self)}
        return {n: v.name if isinstance(v, DType) else v for n, v in values.items()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Return an initializer of a configuration."""
        return cls(**config)


class Zeros(Initializer):
    """Initial values 0."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        return constants.zeros(shape, self.dtype if dtype is None else dtype)


class Ones(Initializer):
    """Initial values 1."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return constants.ones(shape, self.dtype if dtype is None else dtype)


class Constant(Initializer):
    """Initial values given as a number, a list or an array.

    A list fills the shape in row-major order; a shorter one is filled up with its last element,
    a longer one is a ``ValueError``. With `verify_shape` the value's shape must be the variable's
    (``TypeError``).
    """

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32,
                 verify_shape: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(f"Invalid type for initial value: {type(value).__name__}; "
                            "constant_initializer takes a number, a list or an array")
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        wanted = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        if np.isscalar(self.value) and not self._verify_shape and _is_large(shape):
            return raw_ops.Fill(TensorShape(shape), constant(self.value, wanted))
        return constant(self.value, wanted, shape, verify_shape=self._verify_shape)


def _is_large(shape: ShapeLike) -> bool:
    return math.prod(_known_dims(shape)) > tuning.INITIALIZER_LARGE


class RandomUniform(Initializer):
    """Uniform initial values in ``[minval, maxval)``; `maxval` is 1 for floats if None."""

    def __init__(self, minval: TensorLike = 0, maxval: TensorLike | None = None,
                 seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return random_ops.random_uniform(shape, self.minval, self.maxval,
                                         self.dtype if dtype is None else dtype, self.seed)


class RandomNormal(Initializer):
    """Normally distributed initial values."""

    def __init__(self, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, seed: int | None = None,
                 dtype: Any = dtypes.float32) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        return random_ops.random_normal(shape, self.mean, self.stddev,
                                        self.dtype if dtype is None else dtype, self.seed)


class TruncatedNormal(RandomNormal):
    """Normally distributed initial values, none beyond two standard deviations."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        return random_ops.truncated_normal(shape, self.mean, self.stddev,
                                           self.dtype if dtype is None else dtype, self.seed)


class UniformUnitScaling(Initializer):
    """Uniform initial values that keep the scale of a layer's input.

    In ``[-limit, limit)`` with ``limit = factor * sqrt(3 / inputs)``, `inputs` being the product of
    all dimensions but the last (Sussillo and Abbott, 2014, for the choice of `factor`).
    """

    def __init__(self, factor: float = 1.0, seed: int | None = None,
                 dtype: Any = dtypes.float32) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        whole = _whole_shape(shape, partition_info)
        limit = math.sqrt(3 / max(1.0, math.prod(whole[:-1]))) * self.factor
        return random_ops.random_uniform(shape, -limit, limit,
                                         self.dtype if dtype is None else dtype, self.seed)


# The standard deviation of a normal distribution that is cut off at two of its own.
_TRUNCATED = 0.87962566103423978


class VarianceScaling(Initializer):
    """Initial values whose variance is `scale` over the number of inputs, outputs or their mean.

    Args:
        scale: positive factor.
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "uniform"; "normal" or "truncated_normal", truncated at two standard
            deviations, with this variance after that; "untruncated_normal".
        seed: seed of the random op.
        dtype: element type.

    Raises ``ValueError`` for other values.
    """

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "normal",
                 seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        if scale <= 0:
            raise ValueError(f"scale must be positive, got {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"mode must be fan_in, fan_out or fan_avg, got {mode!r}")
        if distribution not in ("normal", "uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(f"distribution must be normal or uniform, got {distribution!r}")
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        fan_in, fan_out = _fans(_whole_shape(shape, partition_info))
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        wanted = self.dtype if dtype is None else dtype
        if self.distribution == "untruncated_normal":
            return random_ops.random_normal(shape, 0.0, math.sqrt(variance), wanted, self.seed)
        if self.distribution != "uniform":
            return random_ops.truncated_normal(shape, 0.0, math.sqrt(variance) / _TRUNCATED, wanted,
                                               self.seed)
        limit = math.sqrt(3.0 * variance)
        return random_ops.random_uniform(shape, -limit, limit, wanted, self.seed)


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Normal initial values for layers of rectifiers (He et al., 2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform initial values for layers of rectifiers (He et al., 2015)."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Normal initial values whose variance is one over the number of inputs."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform initial values whose variance is one over the number of inputs."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


class Orthogonal(Initializer):
    """A random matrix with orthonormal rows or columns (the fewer), times `gain`.

    Shapes of more than two dimensions are matrices whose rows are all dimensions but the last.
    Raises ``ValueError`` for fewer than two dimensions (Saxe et al., 2014).
    """

    @also_ordered("seed", "dtype", unless=lambda dtype: not isinstance(dtype, int))
    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32,
                 seed: int | None = None) -> None:
        self.gain = gain
        self.dtype = _float_dtype(dtype)
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        dims = _known_dims(shape)
        if len(dims) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional, got "
                             f"{dims}")
        wanted = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        rows, columns = math.prod(dims[:-1]), dims[-1]
        longer = [max(rows, columns), min(rows, columns)]
        drawn = random_ops.random_normal(longer, dtype=wanted, seed=self.seed)
        q, r = raw_ops.Qr(drawn, full_matrices=False)
        # With the signs of r's diagonal the matrices are uniformly distributed (Mezzadri, 2007).
        q = raw_ops.Mul(q, raw_ops.Sign(raw_ops.MatrixDiagPart(r)))
        if rows < columns:
            q = raw_ops.Transpose(q, [1, 0])
        return raw_ops.Mul(raw_ops.Reshape(q, dims), constant(self.gain, wanted))


class Identity(Initializer):
    """The identity matrix times `gain`, cut or filled up with zeros to the shape.

    Raises ``ValueError`` for shapes that are not matrices.
    """

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _float_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        dims = [int(d) for d in (shape if partition_info is None else partition_info.full_shape)]
        if len(dims) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices, got "
                             f"{dims}")
        wanted = self.dtype if dtype is None else dtypes.as_dtype(dtype)
        whole = np.eye(dims[0], dims[1]) * self.gain
        if partition_info is not None:
            part = zip(partition_info.var_offset, _known_dims(shape), strict=True)
            whole = whole[tuple(slice(begin, begin + size) for begin, size in part)]
        return constant(whole.astype(wanted.np))


def glorot_uniform_initializer(seed: int | None = None,
                               dtype: DTypeLike = dtypes.float32) -> VarianceScaling:
    """Uniform in ``+-sqrt(6 / (inputs + outputs))`` (Glorot and Bengio, 2010)."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed, dtype)


def glorot_normal_initializer(seed: int | None = None,
                              dtype: DTypeLike = dtypes.float32) -> VarianceScaling:
    """Truncated normal of variance ``2 / (inputs + outputs)`` (Glorot and Bengio, 2010)."""
    return VarianceScaling(1.0, "fan_avg", "normal", seed, dtype)


def _whole_shape(shape: ShapeLike, partition_info: PartitionInfo | None) -> list[int]:
    whole = shape if partition_info is None else partition_info.full_shape
    return _known_dims(whole)


def _known_dims(shape: ShapeLike) -> list[int]:
    dims: Any = TensorShape(shape).as_list()
    return dims


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """The numbers of inputs and outputs of a layer with weights of `shape`.

    The last two dimensions are channels in and out, those before a receptive field.
    """
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    field = math.prod(shape[:-2])
    return float(field * shape[-2]), float(field * shape[-1])


def _float_dtype(dtype: DTypeLike) -> DType:
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype.name}")
    return dtype


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
uniform_unit_scaling_initializer = UniformUnitScaling
variance_scaling_initializer = VarianceScaling
orthogonal_initializer = Orthogonal
identity_initializer = Identity
