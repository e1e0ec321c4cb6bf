"""The base class of all distributions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.base.hooks import Hook
from hpcflow.distributions.checks import after, embed_check_categorical_event_shape
from hpcflow.dtypes import DTypeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor

#: Between two distributions; `divergence` provides them.
cross_entropy_of = Hook("the cross entropy of two distributions")
divergence_of = Hook("the divergence of two distributions")


class ReparameterizationType:
    """A kind of distribution. Samples are differentiable functions of the parameters, or not."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """Base of the distributions: a batch of independent ones, each over events of one shape.

    A subclass gives ``_batch_shape()`` (static, and ``_batch_shape_tensor()`` where that is not
    known), ``_event_shape()``, ``_sample_n(n, seed)`` of shape ``[n] + batch + event``, and those
    of ``_log_prob``, ``_cdf``, ``_entropy``, ``_mean``, ``_mode``, ``_variance``, ``_stddev``,
    ``_covariance`` and ``_quantile`` that it has; others raise ``NotImplementedError``.

    Args:
        dtype: type of the events.
        reparameterization_type: ``FULLY_REPARAMETERIZED``: samples have gradients by the
            parameters.
        validate_args: check parameters and values when run (``InvalidArgumentError``).
        allow_nan_stats: give NaN for what is not defined, such as the mode of a flat density;
            False: an error when run.
        parameters: the arguments of the constructor, by name.
        name: prefix of the names of operations.
    """

    def __init__(self, dtype: DTypeLike, reparameterization_type: ReparameterizationType,
                 validate_args: bool, allow_nan_stats: bool, parameters: dict | None = None,
                 graph_parents: list | None = None, name: str | None = None) -> None:
        del graph_parents  # of no use where tensors know their graph
        self._dtype = hf.as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._validate_args = validate_args
        self._allow_nan_stats = allow_nan_stats
        self._made_with(parameters or {})
        self._name = name or type(self).__name__

    # ------------------------------------------------------------ facts

    #: Parameters that have the shape of a sample, of a distribution over scalars.
    _shaped: tuple[str, ...] = ()

    @classmethod
    def param_shapes(cls, sample_shape: TensorLike, name: str = "DistributionParamShapes") -> dict:
        """Return the shapes that the parameters must have, by name, for one sample to be of
        `sample_shape`; ``NotImplementedError`` where the class does not say so."""
        if not cls._shaped:
            raise NotImplementedError(f"_param_shapes not implemented: {cls.__name__}")
        with hf.name_scope(name, values=[sample_shape]):
            shape = hf.convert_to_tensor(sample_shape, hf.int32)
            return dict.fromkeys(cls._shaped, shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: TensorLike) -> dict:
        """Return the same as static shapes; ``ValueError`` unless `sample_shape` is known."""
        known = (sample_shape if not isinstance(sample_shape, hf.Tensor)
                 else hf.constant_value(sample_shape))
        if known is None or not hf.TensorShape(known).is_fully_defined():
            raise ValueError("sample_shape must be a fully defined shape, or a constant of one")
        cls.param_shapes(hf.TensorShape(known).as_list())
        return dict.fromkeys(cls._shaped, hf.TensorShape(known))

    @property
    def name(self) -> str:
        """The prefix of the names of operations."""
        return self._name

    @property
    def dtype(self) -> Any:
        """The type of the events."""
        return self._dtype

    @property
    def parameters(self) -> dict:
        """The arguments that it was made with."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """The kind of sampling: FULLY_REPARAMETERIZED if samples have gradients for parameters."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """True if undefined statistics are NaN, False if they raise an error."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """True if parameters and values are checked when the graph runs."""
        return self._validate_args

    def copy(self, **override: Any) -> Distribution:
        """Return one of the same class with these arguments in the place of its own."""
        return type(self)(**{**self._parameters, **override})

    @property
    def batch_shape(self) -> Any:
        """The static shape of the batch."""
        return hf.TensorShape(self._batch_shape())

    @property
    def event_shape(self) -> Any:
        """The static shape of an event."""
        return hf.TensorShape(self._event_shape())

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """Return the shape of the batch, int32."""
        with self._scope(name):
            if self.batch_shape.is_fully_defined():
                return hf.constant(self.batch_shape.as_list(), hf.int32)
            return self._batch_shape_tensor()

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Any:
        """Return the shape of an event, int32."""
        with self._scope(name):
            if self.event_shape.is_fully_defined():
                return hf.constant(self.event_shape.as_list(), hf.int32)
            return self._event_shape_tensor()

    def is_scalar_event(self, name: str = "is_scalar_event") -> Any:
        """Return a boolean tensor: whether events are scalars."""
        return hf.equal(hf.size(self.event_shape_tensor()), 0, name=name)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Any:
        """Return a boolean tensor: whether there is one distribution, not a batch."""
        return hf.equal(hf.size(self.batch_shape_tensor()), 0, name=name)

    def __repr__(self) -> str:
        return (f"<hpcflow.distributions.{type(self).__name__} '{self.name}' "
                f"batch_shape={self.batch_shape} event_shape={self.event_shape} "
                f"dtype={self.dtype.name}>")

    # ------------------------------------------------------------ samples

    def sample(self, sample_shape: TensorLike = (), seed: int | None = None,
               name: str = "sample") -> Any:
        """Return samples of shape ``sample_shape + batch_shape + event_shape``."""
        with self._scope(name):
            wanted = hf.convert_to_tensor(np.asarray(sample_shape, np.int32) if isinstance(
                sample_shape, (tuple, list)) and not sample_shape else sample_shape,
                preferred_dtype=hf.int32)
            wanted = hf.reshape(hf.cast(wanted, hf.int32), [-1])
            drawn = self._sample_n(hf.reduce_prod(wanted), seed)
            samples = hf.reshape(drawn, hf.concat([wanted, hf.shape(drawn)[1:]], 0))
            known = hf.constant_value(wanted)
            if known is not None:
                samples.set_shape(hf.TensorShape(known.tolist()).concatenate(
                    self.batch_shape).concatenate(self.event_shape))
            return samples

    # ------------------------------------------------------------ densities

    def log_prob(self, value: TensorLike, name: str = "log_prob") -> Any:
        """Return the logarithm of the density (or probability) at `value`."""
        with self._scope(name):
            value = hf.convert_to_tensor(value, preferred_dtype=self.dtype)
            if hasattr(self, "_log_prob"):
                return self._log_prob(value)
            return hf.log(self._get("_prob")(value))

    def prob(self, value: TensorLike, name: str = "prob") -> Any:
        """Return the density (or probability) at `value`."""
        with self._scope(name):
            value = hf.convert_to_tensor(value, preferred_dtype=self.dtype)
            if hasattr(self, "_prob"):
                return self._prob(value)
            return hf.exp(self._get("_log_prob")(value))

    def cdf(self, value: TensorLike, name: str = "cdf") -> Any:
        """Return the probability of events up to `value`."""
        with self._scope(name):
            return self._below(hf.convert_to_tensor(value, preferred_dtype=self.dtype))

    def _below(self, value: Tensor) -> Any:
        """The cdf, also of what has its logarithm only."""
        if hasattr(self, "_cdf") or not hasattr(self, "_log_cdf"):
            return self._get("_cdf")(value)
        return hf.exp(self._log_cdf(value))

    def log_cdf(self, value: TensorLike, name: str = "log_cdf") -> Any:
        """Return the logarithm of :meth:`cdf`."""
        with self._scope(name):
            value = hf.convert_to_tensor(value, preferred_dtype=self.dtype)
            if hasattr(self, "_log_cdf"):
                return self._log_cdf(value)
            return hf.log(self._get("_cdf")(value))

    def survival_function(self, value: TensorLike, name: str = "survival_function") -> Any:
        """Return the probability of events above `value`."""
        with self._scope(name):
            value = hf.convert_to_tensor(value, preferred_dtype=self.dtype)
            if hasattr(self, "_survival"):
                return self._survival(value)
            return 1.0 - self._below(value)

    def log_survival_function(self, value: TensorLike, name: str = "log_survival_function") -> Any:
        """Return the logarithm of :meth:`survival_function`."""
        with self._scope(name):
            value = hf.convert_to_tensor(value, preferred_dtype=self.dtype)
            if hasattr(self, "_log_survival"):
                return self._log_survival(value)
            return hf.log1p(-self._below(value))

    def quantile(self, value: TensorLike, name: str = "quantile") -> Any:
        """Return the event up to which the probability is `value`."""
        with self._scope(name):
            return self._get("_quantile")(hf.convert_to_tensor(value, preferred_dtype=self.dtype))

    # ------------------------------------------------------------ statistics

    def entropy(self, name: str = "entropy") -> Any:
        """Return the entropy in nats."""
        with self._scope(name):
            return self._get("_entropy")()

    def mean(self, name: str = "mean") -> Any:
        """Return the mean."""
        with self._scope(name):
            return self._get("_mean")()

    def mode(self, name: str = "mode") -> Any:
        """Return the mode: where the density is largest."""
        with self._scope(name):
            return self._get("_mode")()

    def variance(self, name: str = "variance") -> Any:
        """Return the variance of each element of an event."""
        with self._scope(name):
            if hasattr(self, "_variance"):
                return self._variance()
            return hf.square(self._get("_stddev")())

    def stddev(self, name: str = "stddev") -> Any:
        """Return the root of :meth:`variance`."""
        with self._scope(name):
            if hasattr(self, "_stddev"):
                return self._stddev()
            return hf.sqrt(self._get("_variance")())

    def covariance(self, name: str = "covariance") -> Any:
        """Return the covariance matrix of the elements of vector events."""
        with self._scope(name):
            return self._get("_covariance")()

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Any:
        """Return the cross entropy with `other`: the entropy and the divergence."""
        return cross_entropy_of(self, other, self.allow_nan_stats, name)

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Any:
        """Return the divergence from `other`, see :func:`kl_divergence`."""
        return divergence_of(self, other, self.allow_nan_stats, name)

    # ------------------------------------------------------------ for subclasses

    def _made_with(self, parameters: dict) -> None:
        """Keep the arguments of the constructor: `parameters` is what ``locals()`` was there."""
        self._parameters = {k: v for k, v in parameters.items()
                            if k != "self" and not k.startswith("__")}

    def _scope(self, name: str) -> Any:
        return hf.name_scope(f"{self._name}/{name}")

    def _get(self, method: str) -> Any:
        found = getattr(self, method, None)
        if found is None:
            raise NotImplementedError(f"{method.strip('_')} is not implemented: "
                                      f"{type(self).__name__}")
        return found

    def _batch_shape(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its batch_shape")

    def _batch_shape_tensor(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its batch_shape_tensor")

    def _event_shape(self) -> Any:
        return []

    def _event_shape_tensor(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its event_shape_tensor")

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        raise NotImplementedError(f"sample is not implemented: {type(self).__name__}")

    def _where_defined(self, value: Tensor, message: str, *above: tuple[float, Any]) -> Any:
        """Return `value` where each tensor of `above` is larger than the number beside it;
        elsewhere NaN, or raise an error at run time."""
        if self._allow_nan_stats:
            defined = functools.reduce(hf.logical_and, [x > least for least, x in above])
            nan = hf.fill(hf.shape(value), np.array(np.nan, self.dtype.as_numpy_dtype))
            return hf.where(hf.broadcast_to(defined, hf.shape(value)), value, nan)
        return after([hf.assert_less(hf.constant(least, x.dtype.base_dtype), x, message=message)
                      for least, x in above], value)


class OfParameters(Distribution):
    """A distribution over scalars whose batch is what its parameters broadcast to."""

    def __init__(self, parameters: list, *args: Any, **keywords: Any) -> None:
        self._broadcast = parameters
        super().__init__(*args, **keywords)

    def _batch_shape(self) -> Any:
        shape = self._broadcast[0].shape
        for parameter in self._broadcast[1:]:
            shape = hf.broadcast_static_shape(shape, parameter.shape)
        return shape

    def _batch_shape_tensor(self) -> Any:
        shape = hf.shape(self._broadcast[0])
        for parameter in self._broadcast[1:]:
            shape = hf.broadcast_dynamic_shape(shape, hf.shape(parameter))
        return shape

    def _drawn_shape(self, n: TensorLike) -> Any:
        """Return the shape of `n` samples of the whole batch."""
        return hf.concat([[n], self.batch_shape_tensor()], 0)

    def _whole(self, value: Tensor) -> Any:
        """Broadcast `value` to the shape of the batch."""
        return value + hf.zeros(self.batch_shape_tensor(), self.dtype)


class OfProbabilities(Distribution):
    """A distribution of two outcomes or of classes, by their `logits` or `probs`."""

    _logits: Any
    _probs: Any

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities, up to a constant; of two outcomes, of the odds."""
        return self._logits

    @property
    def probs(self) -> Any:
        """The probabilities of the classes; of two outcomes, that of 1 or success."""
        return self._probs


class OfClasses(OfProbabilities):
    """A distribution of classes, the last dimension of `logits` and `probs`."""

    @property
    def event_size(self) -> Any:
        """The number of classes, an int32 tensor."""
        return hf.shape(self._logits)[-1]


def floats(validate: bool, positive: dict, others: dict) -> list:
    """The parameters as tensors of one floating type: those of `positive`, which are checked if
    that is wanted, then `others`. Raises ``TypeError`` for types that differ or are no floats."""
    named = {**positive, **others}
    typed = [hf.as_dtype(v.dtype) for v in named.values() if hasattr(v, "dtype")]
    dtype = typed[0].base_dtype if typed else hf.float32
    made = []
    for name, value in named.items():
        tensor = hf.convert_to_tensor(value, None if hasattr(value, "dtype") else dtype, name=name)
        if not tensor.dtype.base_dtype.is_floating or tensor.dtype.base_dtype != dtype:
            raise TypeError(f"{name} must be of type {dtype.name} as the other parameters, floats, "
                            f"but is of type {tensor.dtype.base_dtype.name}")
        if validate and name in positive:
            tensor = after([hf.assert_positive(tensor)], tensor)
        made.append(tensor)
    return made


def logits_and_probs(logits: TensorLike | None, probs: Any, validate: bool,
                     multiclass: bool) -> tuple:
    """Compute the logits from the probs or the reverse; ``ValueError`` unless one is given."""
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if probs is None:
        (logits,) = floats(False, {}, {"logits": logits})
        if multiclass and validate:
            logits = embed_check_categorical_event_shape(logits)
        return logits, hf.nn.softmax(logits) if multiclass else hf.sigmoid(logits)
    (probs,) = floats(False, {}, {"probs": probs})
    if validate:
        probs = _checked_probs(probs, multiclass)
    return hf.log(probs) if multiclass else hf.log(probs) - hf.log1p(-probs), probs


def _checked_probs(probs: Tensor, multiclass: bool) -> Tensor:
    one = hf.ones([], probs.dtype.base_dtype)
    checks = [hf.assert_non_negative(probs)]
    if multiclass:
        probs = embed_check_categorical_event_shape(probs)
        checks.append(hf.assert_near(hf.reduce_sum(probs, -1), one, rtol=1e-4, atol=1e-4,
                                     message="probs does not sum to 1"))
    else:
        checks.append(hf.assert_less_equal(probs, one,
                                           message="probs has components greater than 1"))
    return after(checks, probs)
