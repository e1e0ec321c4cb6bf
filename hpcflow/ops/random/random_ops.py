"""Random op types, their seeds, and the public functions that draw from distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import next_seed
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    known_number,
    show,
    unchanged,
    with_rank,
)
from hpcflow.ops.common.type_sets import ANY_FLOAT

__all__ = [
    "get_seed",
    "multinomial",
    "random_crop",
    "random_gamma",
    "random_normal",
    "random_poisson",
    "random_shuffle",
    "random_uniform",
    "truncated_normal",
]

DEFAULT_GRAPH_SEED = 87654321
_MAX_SEED = 2**31 - 1

# ---------------------------------------------------------------- seeds


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Return the two seeds of an op, from the graph's seed and its own.

    Neither given: (None, None), an unpredictable sequence. Only the graph's: the op's own is the
    number of operations that the graph has. Only the op's: a fixed graph seed. The result is never
    (0, 0), which stands for no seeds.
    """
    graph = get_default_graph()
    graph_seed = graph.seed
    if graph_seed is None and op_seed is None:
        return None, None
    if op_seed is None:
        op_seed, graph.seed_used = next_seed(graph), True
    seeds = (DEFAULT_GRAPH_SEED if graph_seed is None else graph_seed) % _MAX_SEED, (
        op_seed % _MAX_SEED)
    return (0, _MAX_SEED) if seeds == (0, 0) else seeds


# ---------------------------------------------------------------- op types


def _described_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "shape")
    dims = constant_value_as_dims(op.inputs[0])
    if dims is not None:
        value = constant_value(op.inputs[0])
        if value is not None and (value < 0).any():
            raise ValueError(f"shape must not have negative dimensions: {value.tolist()}")
    return [dims]


def _gamma_shape(op: Operation) -> list[Dims]:
    outer, alpha = _described_shape(op)[0], op.input_dims(1)
    return [None if outer is None or alpha is None else (*outer, *alpha)]


def _multinomial_shape(op: Operation) -> list[Dims]:
    logits = with_rank(op.input_dims(0), 2, "logits")
    count = known_number(op, 1)
    return [(logits[0], None if count is None else int(count))]


def _integer_shape(op: Operation) -> list[Dims]:
    for i, name in ((1, "minval"), (2, "maxval")):
        dims = op.input_dims(i)
        if dims:
            raise ValueError(f"Shape must be rank 0 but is rank {len(dims)}: {name} must be a "
                             f"scalar; got a tensor of shape {show(dims)}")
    return _described_shape(op)


def _crop_shape(op: Operation) -> list[Dims]:
    image = with_rank(op.input_dims(0), 3, "image")
    size = constant_value_as_dims(op.inputs[1]) or (None, None)
    return [(*with_rank(size, 2, "size"), image[2])]


_SEEDS = "seed: int = 0; seed2: int = 0"
_FLOATS = ANY_FLOAT
_INDEX = "{int32, int64}"
for _op_type in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    register_op(_op_type, "shape: T", "output: dtype",
                f"{_SEEDS}; dtype: {_FLOATS}; T: {_INDEX}", stateful=True, shape=_described_shape)
register_op("RandomUniformInt", "shape: T; minval: Tout; maxval: Tout", "output: Tout",
            f"{_SEEDS}; Tout: {_INDEX}; T: {_INDEX}", stateful=True, shape=_integer_shape)
register_op("ParameterizedTruncatedNormal",
            "shape: T; means: dtype; stdevs: dtype; minvals: dtype; maxvals: dtype",
            "output: dtype", f"{_SEEDS}; dtype: {_FLOATS}; T: {_INDEX}", stateful=True,
            shape=_described_shape)
register_op("RandomShuffle", "value: T", "output: T", f"{_SEEDS}; T: type", stateful=True,
            shape=unchanged)
register_op("RandomGamma", "shape: S; alpha: T", "output: T",
            f"{_SEEDS}; S: {_INDEX}; T: {_FLOATS}", stateful=True, shape=_gamma_shape)
_NUMBERS = "{half, bfloat16, float, double, int32, int64}"
register_op("Multinomial", "logits: T; num_samples: int32", "output: output_dtype",
            f"{_SEEDS}; T: {{float, double, int32, int64, uint8, int16, int8, uint16, half}}; "
            f"output_dtype: {_INDEX} = int64",
            stateful=True, shape=_multinomial_shape)
register_op("RandomCrop", "image: T; size: int64", "output: T",
            f"T: {{uint8, int8, int16, int32, int64, float, double}}; {_SEEDS}", stateful=True,
            shape=_crop_shape, deprecated="random_crop composes it of RandomUniformInt and Slice")
register_op("RandomPoisson", "shape: S; rate: dtype", "output: dtype",
            f"{_SEEDS}; S: {_INDEX}; dtype: {_FLOATS}", stateful=True, shape=_gamma_shape)
register_op("RandomPoissonV2", "shape: S; rate: R", "output: dtype",
            f"{_SEEDS}; S: {_INDEX}; R: {_NUMBERS} = double; dtype: {_NUMBERS} = int64",
            stateful=True, shape=_gamma_shape)
not_differentiable("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt",
                   "ParameterizedTruncatedNormal", "RandomShuffle", "Multinomial",
                   "RandomCrop", "RandomPoisson", "RandomPoissonV2")


@RegisterGradient("RandomGamma")
def _random_gamma_grad(op: Operation, grad: Tensor) -> tuple:
    """By alpha, at the same place of the distribution (Figurnov et al., 2018)."""
    shape, alpha = op.inputs
    drawn = raw_ops.Size(shape)
    slope = raw_ops.RandomGammaGrad(alpha, op.outputs[0])
    axes = raw_ops.Range(np.int32(0), drawn, np.int32(1))
    return None, raw_ops.Sum(raw_ops.Mul(grad, slope), axes)

# ---------------------------------------------------------------- distributions


def _shape_tensor(shape: TensorLike) -> Tensor:
    """The shape as an integer tensor; an empty list is a scalar's shape."""
    empty = isinstance(shape, (list, tuple)) and not shape
    return convert_to_tensor(shape, dtypes.int32 if empty else None, name="shape")


def random_uniform(shape: Any, minval: TensorLike = 0, maxval: TensorLike | None = None,
                   dtype: DTypeLike = dtypes.float32, seed: int | None = None,
                   name: str | None = None) -> Tensor:
    """Return numbers drawn uniformly from ``[minval, maxval)``.

    Args:
        shape: 1-D integers.
        minval: lower bound, included.
        maxval: upper bound, excluded; 1 for floats if None, required for integers.
        dtype: float16, float32, float64, int32 or int64.
        seed: seed of the op; see :func:`get_seed`.
        name: name of the operation.

    Raises ``ValueError`` for integers without `maxval`.
    """
    dtype = dtypes.as_dtype(dtype)
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"random_uniform: maxval must be given for integers ({dtype.name})")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        shape = _shape_tensor(shape)
        low = convert_to_tensor(minval, dtype, name="min")
        high = convert_to_tensor(maxval, dtype, name="max")
        seed1, seed2 = get_seed(seed)
        if dtype.is_integer:
            return raw_ops.RandomUniformInt(shape, low, high, seed=seed1, seed2=seed2, name=scope)
        drawn = raw_ops.RandomUniform(shape, dtype=dtype, seed=seed1, seed2=seed2)
        return raw_ops.Add(raw_ops.Mul(drawn, raw_ops.Sub(high, low, name="sub"), name="mul"), low,
                           name=scope)


def random_normal(shape: Any, mean: TensorLike = 0.0, stddev: TensorLike = 1.0,
                  dtype: DTypeLike = dtypes.float32, seed: int | None = None,
                  name: str | None = None) -> Tensor:
    """Return numbers of the normal distribution with `mean` and standard deviation `stddev`."""
    return _normal("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(shape: TensorLike, mean: Any = 0.0, stddev: Any = 1.0,
                     dtype: DType = dtypes.float32, seed: int | None = None,
                     name: str | None = None) -> Tensor:
    """As :func:`random_normal`; numbers beyond two standard deviations are drawn again."""
    return _normal("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def parameterized_truncated_normal(
        shape: TensorLike, means: TensorLike = 0.0, stddevs: TensorLike = 1.0,
        minvals: TensorLike = -2.0, maxvals: TensorLike = 2.0, dtype: DTypeLike = dtypes.float32,
        seed: int | None = None, name: str | None = None) -> Tensor:
    """Return normal numbers between `minvals` and `maxvals`, each parameter a scalar or a vector
    of one element for each batch: the first dimension of `shape`."""
    with name_scope(name, "parameterized_truncated_normal",
                    [shape, means, stddevs, minvals, maxvals]):
        parameters = [convert_to_tensor(value, dtype, name=part) for part, value in (
            ("means", means), ("stddevs", stddevs), ("minvals", minvals), ("maxvals", maxvals))]
        seed1, seed2 = get_seed(seed)
        return raw_ops.ParameterizedTruncatedNormal(_shape_tensor(shape), *parameters,
                                                    seed=seed1, seed2=seed2)


def _normal(op_type: str, default_name: str, shape: TensorLike, mean: TensorLike,
            stddev: TensorLike, dtype: DTypeLike, seed: int | None, name: str | None) -> Tensor:
    with name_scope(name, default_name, [shape, mean, stddev]) as scope:
        shape = _shape_tensor(shape)
        center = convert_to_tensor(mean, dtype, name="mean")
        spread = convert_to_tensor(stddev, dtype, name="stddev")
        seed1, seed2 = get_seed(seed)
        drawn = getattr(raw_ops, op_type)(shape, dtype=dtype, seed=seed1, seed2=seed2)
        return raw_ops.Add(raw_ops.Mul(drawn, spread, name="mul"), center, name=scope)


def random_gamma(shape: TensorLike, alpha: TensorLike, beta: TensorLike | None = None,
                 dtype: DTypeLike = dtypes.float32, seed: int | None = None,
                 name: str | None = None) -> Tensor:
    """Return numbers of the gamma distributions with shape `alpha` and inverse scale `beta`.

    `alpha` and `beta` (1 if None) broadcast; the result has the shape ``shape + theirs``: one
    sample of `shape` for each distribution.
    """
    import ml_dtypes  # only here, as it takes a while to load

    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        shape = convert_to_tensor(shape, dtypes.int32, name="shape")
        alpha = convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, alpha.dtype, name="beta")
        # Broadcasting alpha against beta decides how many distributions there are.
        broadcast = raw_ops.Add(alpha, raw_ops.ZerosLike(beta))
        seed1, seed2 = get_seed(seed)
        drawn = raw_ops.RandomGamma(shape, broadcast, seed=seed1, seed2=seed2)
        # They are positive, also where the nearest number is zero.
        smallest = ml_dtypes.finfo(alpha.dtype.as_numpy_dtype).tiny
        return raw_ops.Maximum(smallest, raw_ops.RealDiv(drawn, beta))


def random_poisson(lam: TensorLike, shape: TensorLike, dtype: DTypeLike = dtypes.float32,
                   seed: int | None = None, name: str | None = None) -> Tensor:
    """Return numbers of the Poisson distributions with means `lam`.

    The result has the shape ``shape + lam.shape``: one sample of `shape` for each distribution.
    Means of another type than `dtype` are taken as they are.
    """
    with name_scope(name, "random_poisson", [v for v in (lam, shape) if hasattr(v, "graph")]):
        shape = convert_to_tensor(shape, dtypes.int32, name="shape")
        dtype = dtypes.as_dtype(dtype)
        seed1, seed2 = get_seed(seed)
        rate = convert_to_tensor(lam, name="lam", preferred_dtype=dtype)
        if rate.dtype.base_dtype is dtype and not dtype.is_integer:
            return raw_ops.RandomPoisson(shape, rate, seed=seed1, seed2=seed2)
        return raw_ops.RandomPoissonV2(shape, rate, dtype=dtype, seed=seed1, seed2=seed2)


def categorical(logits: TensorLike, num_samples: Any, dtype: DTypeLike | None = None,
                seed: int | None = None, name: str | None = None) -> Tensor:
    """:func:`multinomial`, with the arguments in a later order: `dtype` is that of the result,
    int64 if None."""
    return multinomial(logits, num_samples, seed, name, dtypes.int64 if dtype is None else dtype)


def multinomial(logits: TensorLike, num_samples: TensorLike, seed: int | None = None,
                name: str | None = None, output_dtype: DTypeLike = dtypes.int64) -> Tensor:
    """Draw classes by their unnormalized log-probabilities.

    Args:
        logits: shape ``[batch, classes]``.
        num_samples: number of draws for each row.
        seed: seed of the op.
        name: name of the operation.
        output_dtype: of the result, int64 or int32.

    Returns: shape ``[batch, num_samples]``.
    """
    with name_scope(name, "multinomial", [logits]):
        logits = convert_to_tensor(logits, name="logits")
        seed1, seed2 = get_seed(seed)
        return raw_ops.Multinomial(logits, num_samples, seed=seed1, seed2=seed2,
                                   output_dtype=output_dtype)


def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return `value` with its rows (entries of the first dimension) in a random order."""
    seed1, seed2 = get_seed(seed)
    return raw_ops.RandomShuffle(value=value, seed=seed1, seed2=seed2, name=name)


def random_crop(value: TensorLike, size: TensorLike, seed: int | None = None,
                name: str | None = None) -> Tensor:
    """Return a slice of shape `size` of `value` at a uniformly chosen offset.

    Raises (when run) ``InvalidArgumentError`` if `value` is smaller than `size` anywhere.
    """
    from hpcflow.ops.flow.checks import Assert

    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        shape, message = raw_ops.Shape(value), "Need value.shape >= size, got "
        # Seeds follow from the number of operations: the reference has the message twice.
        convert_to_tensor(message)
        fits = Assert(raw_ops.All(raw_ops.GreaterEqual(shape, size), [0]), [message, shape, size])
        with value.graph.control_dependencies([fits]):
            shape = raw_ops.Identity(shape)
        limit = raw_ops.Add(raw_ops.Sub(shape, size), 1)
        drawn = random_uniform(raw_ops.Shape(shape), maxval=dtypes.int32.max, dtype=dtypes.int32,
                               seed=seed)
        return raw_ops.Slice(value, raw_ops.FloorMod(drawn, limit), size, name=scope)
