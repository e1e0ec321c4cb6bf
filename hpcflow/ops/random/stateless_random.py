"""Random op types without state: their numbers follow from seeds, or a key and a counter, alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value_as_dims,
    known_number,
    merge_dim,
    scalar,
    with_rank,
)
from hpcflow.ops.common.type_sets import INDEX, ORDERED

__all__: list[str] = []

_FLOATS = "{half, bfloat16, float, double}"
_SEED = f"Tseed: {INDEX} = int64"


def _seeded_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "shape")
    merge_dim(with_rank(op.input_dims(1), 1, "seed")[0], 2)
    return [constant_value_as_dims(op.inputs[0])]


def _classes_shape(op: Operation) -> list[Dims]:
    rows = with_rank(op.input_dims(0), 2, "logits")[0]
    merge_dim(with_rank(op.input_dims(2), 1, "seed")[0], 2)
    count = known_number(op, 1)
    return [(rows, None if count is None else int(count))]


def _keyed_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "shape")
    merge_dim(with_rank(op.input_dims(1), 1, "key")[0], 1)
    with_rank(op.input_dims(2), 1, "counter")
    with_rank(op.input_dims(3), 0, "alg")
    return [constant_value_as_dims(op.inputs[0])]


def _key_shapes(op: Operation) -> list[Dims]:
    merge_dim(with_rank(op.input_dims(0), 1, "seed")[0], 2)
    found: list[Dims] = [(1,), (2,), ()]
    return found[: len(op.outputs)]


_BOUNDS = "minval: dtype; maxval: dtype"
_KEY = "key: uint64; counter: uint64; alg: int32"
for _name, _bounds, _old, _new in (
        ("RandomUniform", "", f"{_FLOATS} = float", f"{_FLOATS} = float"),
        ("RandomNormal", "", f"{_FLOATS} = float", f"{_FLOATS} = float"),
        ("TruncatedNormal", "", f"{_FLOATS} = float", f"{_FLOATS} = float"),
        ("RandomUniformInt", f"; {_BOUNDS}", INDEX, "{int32, int64, uint32, uint64}"),
        ("RandomUniformFullInt", "", "{int32, int64, uint32, uint64} = uint64",
         "{int32, int64, uint32, uint64} = uint64")):
    register_op(f"Stateless{_name}", f"shape: T; seed: Tseed{_bounds}", "output: dtype",
                f"dtype: {_old}; T: {INDEX} = int32; Tseed: {{int32, int64, uint32, uint64}} = "
                "int64", shape=_seeded_shape)
    register_op(f"Stateless{_name}V2", f"shape: Tshape; {_KEY}{_bounds}", "output: dtype",
                f"dtype: {_new}; Tshape: {INDEX} = int32", shape=_keyed_shape)
    not_differentiable(f"Stateless{_name}", f"Stateless{_name}V2")
register_op("StatelessRandomGetKeyCounter", "seed: Tseed", "key: uint64; counter: uint64", _SEED,
            shape=_key_shapes)
register_op("StatelessRandomGetKeyCounterAlg", "seed: Tseed",
            "key: uint64; counter: uint64; alg: int32", _SEED, shape=_key_shapes)
register_op("StatelessRandomGetAlg", outputs="alg: int32", stateful=True, shape=scalar)
register_op("StatelessMultinomial", "logits: T; num_samples: int32; seed: Tseed",
            "output: output_dtype",
            f"T: {ORDERED}; {_SEED}; output_dtype: {INDEX} = int64", shape=_classes_shape)
not_differentiable("StatelessMultinomial", "StatelessRandomGetKeyCounter",
                   "StatelessRandomGetKeyCounterAlg", "StatelessRandomGetAlg")

# With a parameter for each element of the shape's last dimensions.
register_op("StatelessRandomGammaV2", "shape: T; seed: Tseed; alpha: dtype", "output: dtype",
            f"dtype: {{half, float, double}}; T: {INDEX} = int32; {_SEED}", shape=_seeded_shape)
register_op("StatelessRandomGammaV3", f"shape: shape_dtype; {_KEY}; alpha: dtype",
            "output: dtype", f"dtype: {{half, float, double}}; shape_dtype: {INDEX} = int32",
            shape=_keyed_shape)
register_op("StatelessRandomPoisson", "shape: T; seed: Tseed; lam: Rtype", "output: dtype",
            "Rtype: {half, float, double, int32, int64}; "
            f"dtype: {{half, float, double, int32, int64}}; T: {INDEX}; {_SEED}",
            shape=_seeded_shape)
not_differentiable("StatelessRandomPoisson")


@RegisterGradient("StatelessRandomGammaV2")
@RegisterGradient("StatelessRandomGammaV3")
def _gamma_grad(op: Operation, grad: Tensor) -> tuple:
    """By alpha, at the same place of the distribution."""
    shape, alpha = op.inputs[0], op.inputs[-1]
    slope = raw_ops.RandomGammaGrad(alpha, op.outputs[0])
    axes = raw_ops.Range(np.int32(0), raw_ops.Sub(raw_ops.Size(shape), raw_ops.Rank(alpha)),
                         np.int32(1))
    return (*[None] * (len(op.inputs) - 1), raw_ops.Sum(raw_ops.Mul(grad, slope), axes))


# ---------------------------------------------------------------- public functions


def stateless_uniform(shape: Any, seed: Any, minval: Any = 0, maxval: Any = None,
                      dtype: DType = dtypes.float32, name: str | None = None) -> Tensor:
    """Return uniform numbers in ``[minval, maxval)`` that follow from `seed` alone.

    Args:
        shape: of the numbers.
        seed: two integers.
        minval: the least number; None, together with `maxval`, for integers of all values.
        maxval: the end of the range; 1 by default, to be given for integers.
        dtype: floating-point, int32 or int64 (uint32 and uint64 of all values).
        name: name of the scope.
    """
    dtype = dtypes.as_dtype(dtype)
    if dtype.is_integer and (minval is None) != (maxval is None):
        raise ValueError(f"For integer dtype {dtype.name}, minval and maxval must be both None or "
                         f"both non-None; got minval={minval} and maxval={maxval}")
    if not dtype.is_integer and maxval is None:
        maxval = 1
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]):
        shape = _shape(shape)
        if dtype.is_integer and minval is None:
            return raw_ops.StatelessRandomUniformFullInt(shape, seed, dtype=dtype)
        low, high = convert_to_tensor(minval, dtype), convert_to_tensor(maxval, dtype)
        if dtype.is_integer:
            return raw_ops.StatelessRandomUniformInt(shape, seed, low, high)
        drawn = raw_ops.StatelessRandomUniform(shape, seed, dtype=dtype)
        return raw_ops.Add(raw_ops.Mul(drawn, raw_ops.Sub(high, low)), low)


def stateless_normal(shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0,
                     dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Return normal numbers that follow from `seed` alone; see :func:`stateless_uniform`."""
    return _scaled("StatelessRandomNormal", "stateless_random_normal", shape, seed, mean, stddev,
                   dtype, name)


def stateless_truncated_normal(shape: Any, seed: Any, mean: Any = 0.0, stddev: TensorLike = 1.0,
                               dtype: DTypeLike = dtypes.float32,
                               name: str | None = None) -> Tensor:
    """Return normal numbers within two deviations that follow from `seed` alone.

    See :func:`stateless_uniform`.
    """
    return _scaled("StatelessTruncatedNormal", "stateless_truncated_normal", shape, seed, mean,
                   stddev, dtype, name)


def stateless_multinomial(logits: TensorLike, num_samples: TensorLike, seed: TensorLike,
                          output_dtype: DTypeLike = dtypes.int64,
                          name: str | None = None) -> Tensor:
    """Draw classes by their unnormalized log-probabilities; they follow from `seed` alone.

    Args:
        logits: shape ``[batch, classes]``.
        num_samples: number of draws for each row.
        seed: two integers.
        output_dtype: of the result, int64 or int32.
        name: name of the scope.

    Returns: shape ``[batch, num_samples]``.
    """
    with name_scope(name, "stateless_multinomial", [logits, seed]):
        return raw_ops.StatelessMultinomial(convert_to_tensor(logits, name="logits"), num_samples,
                                            seed, output_dtype=output_dtype)


def stateless_categorical(logits: TensorLike, num_samples: TensorLike, seed: TensorLike,
                          dtype: DTypeLike = dtypes.int64, name: str | None = None) -> Tensor:
    """Return what :func:`stateless_multinomial` does, of type `dtype`."""
    return stateless_multinomial(logits, num_samples, seed, dtype,
                                 "stateless_categorical" if name is None else name)


def _scaled(op_type: str, default: str, shape: TensorLike, seed: TensorLike, mean: TensorLike,
            stddev: TensorLike, dtype: Any, name: str | None) -> Tensor:
    dtype = dtypes.as_dtype(dtype)
    with name_scope(name, default, [shape, seed, mean, stddev]):
        drawn = getattr(raw_ops, op_type)(_shape(shape), seed, dtype=dtype)
        return raw_ops.Add(raw_ops.Mul(drawn, convert_to_tensor(stddev, dtype)),
                           convert_to_tensor(mean, dtype))


def _shape(shape: TensorLike) -> Tensor:
    if isinstance(shape, (list, tuple)) and not shape:
        return convert_to_tensor(np.zeros(0, np.int32))
    return convert_to_tensor(shape, name="shape")
