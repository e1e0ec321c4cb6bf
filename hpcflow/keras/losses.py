"""Losses of predictions: functions of examples, and objects that reduce them to a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.keras import backend as K
from hpcflow.keras import lookup
from hpcflow.nn.weighting import checked_weights

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorHandle, TensorLike
    from hpcflow.graph.operation import Tensor


def _pair(y_true: TensorLike, y_pred: TensorLike) -> tuple[Any, Any]:
    y_pred = hf.convert_to_tensor(y_pred)
    return hf.cast(y_true, y_pred.dtype.base_dtype), y_pred


def _mean(values: Sequence[TensorLike]) -> Any:
    return hf.reduce_mean(values, -1)


def mean_squared_error(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """Mean of the squared differences, over the last dimension."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(hf.squared_difference(y_pred, y_true))


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """Mean of the absolute differences."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(hf.abs(y_pred - y_true))


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """Mean of the absolute differences in percent of the true values."""
    y_true, y_pred = _pair(y_true, y_pred)
    return 100.0 * _mean(hf.abs((y_true - y_pred) / hf.maximum(hf.abs(y_true), K.epsilon())))


def mean_squared_logarithmic_error(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """Mean of the squared differences of log(1 + y)."""
    y_true, y_pred = _pair(y_true, y_pred)
    first, second = (hf.log(hf.maximum(y, K.epsilon()) + 1.0) for y in (y_pred, y_true))
    return _mean(hf.squared_difference(first, second))


def _signs(y_true: Any) -> Any:
    """-1 and 1 where the labels are 0 and 1."""
    binary = hf.reduce_all(hf.logical_or(hf.equal(y_true, 0), hf.equal(y_true, 1)))
    return hf.cond(binary, lambda: 2.0 * y_true - 1.0, lambda: hf.identity(y_true))


def hinge(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """Mean of max(0, 1 - y p)."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(hf.maximum(1.0 - _signs(y_true) * y_pred, 0.0))


def squared_hinge(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """Mean of max(0, 1 - y p)²."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(hf.square(hf.maximum(1.0 - _signs(y_true) * y_pred, 0.0)))


def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """max(0, 1 + the largest prediction of another class - that of the class)."""
    y_true, y_pred = _pair(y_true, y_pred)
    positive = hf.reduce_sum(y_true * y_pred, -1)
    negative = hf.reduce_max((1.0 - y_true) * y_pred, -1)
    return hf.maximum(0.0, negative - positive + 1.0)


def logcosh(y_true: Any, y_pred: Any) -> Any:
    """Mean of log(cosh(differences))."""
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return _mean(x + hf.nn.softplus(-2.0 * x) - 0.6931471805599453)


def huber_loss(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Mean of e²/2 for differences of at most delta, delta |e| - delta²/2 beyond."""
    y_true, y_pred = _pair(y_true, y_pred)
    error = hf.abs(y_pred - y_true)
    quadratic = hf.minimum(error, delta)
    return _mean(0.5 * quadratic * quadratic + delta * (error - quadratic))


def _smoothed(y_true: Any, smoothing: float, classes: Any) -> Any:
    return y_true * (1.0 - smoothing) + smoothing / classes if smoothing else y_true


def categorical_crossentropy(y_true: Tensor, y_pred: Tensor, from_logits: bool = False,
                             label_smoothing: float = 0) -> Any:
    """-Σ t log p over the classes, which are the last dimension."""
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = _smoothed(y_true, label_smoothing, hf.cast(hf.shape(y_true)[-1], y_pred.dtype))
    return K.categorical_crossentropy(y_true, y_pred, from_logits)


def sparse_categorical_crossentropy(y_true: Tensor, y_pred: TensorHandle, from_logits: bool = False,
                                    axis: int = -1) -> Any:
    """-log p of the class whose number is given."""
    return K.sparse_categorical_crossentropy(y_true, y_pred, from_logits, axis)


def binary_crossentropy(y_true: Tensor, y_pred: Tensor, from_logits: bool = False,
                        label_smoothing: float = 0) -> Any:
    """Mean of -t log p - (1 - t) log(1 - p)."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true = _smoothed(y_true, label_smoothing, 2.0)
    return _mean(K.binary_crossentropy(y_true, y_pred, from_logits))


def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Any:
    """Σ t log(t / p)."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = (hf.clip_by_value(y, K.epsilon(), 1.0) for y in (y_true, y_pred))
    return hf.reduce_sum(y_true * hf.log(y_true / y_pred), -1)


def poisson(y_true: Any, y_pred: Any) -> Any:
    """Mean of p - t log p."""
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(y_pred - y_true * hf.log(y_pred + K.epsilon()))


def cosine_similarity(y_true: TensorLike, y_pred: TensorLike, axis: int = -1) -> Any:
    """Minus the cosine of the angle between the two, as in all versions of 1.x but the last two."""
    y_true, y_pred = _pair(y_true, y_pred)
    return -hf.reduce_sum(hf.nn.l2_normalize(y_true, axis) * hf.nn.l2_normalize(y_pred, axis),
                          axis)


cosine_proximity = cosine = cosine_similarity
mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence

# ---------------------------------------------------------------- objects


class Reduction:
    """Names of the reductions that losses of Keras take."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all of them."""
        return cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ``ValueError`` for another name."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}.")


class Loss:
    """A loss as an object: a number for labels, predictions and weights of examples.

    Args:
        reduction: a :class:`Reduction`; ``auto`` is ``sum_over_batch_size``.
        name: its name.
    """

    def __init__(self, reduction: str = "auto", name: str | None = None) -> None:
        Reduction.validate(reduction)
        self.reduction, self.name = reduction, name

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> Any:
        """Return the losses of the examples; derived classes say what they are."""
        raise NotImplementedError(f"{type(self).__name__} does not say its losses")

    def __call__(self, y_true: Any, y_pred: Tensor,
                 sample_weight: TensorHandle | None = None) -> Any:
        """Return the loss."""
        hf.get_default_graph()._last_loss_reduction = self.reduction  # as those of hf.losses
        with hf.name_scope(self.name or type(self).__name__):
            return reduced(self.call(y_true, y_pred), sample_weight, self.reduction)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict) -> Loss:
        """Return a loss of a configuration."""
        return cls(**config)


def fitted(weights: Any, values: Any) -> Any:
    """Weights of examples in the type of `values`, with as many dimensions."""
    weights = hf.cast(weights, values.dtype.base_dtype)
    ranks = values.shape.ndims, weights.shape.ndims
    if None in ranks:  # there are no more dimensions of weights than of values
        extra = hf.maximum(hf.rank(values) - hf.rank(weights), 0)
        return hf.reshape(weights, hf.concat(
            [hf.shape(weights), hf.ones(hf.expand_dims(extra, 0), hf.int32)], 0))
    if ranks[0] > ranks[1]:
        ones = [1] * (ranks[0] - ranks[1])
        return hf.reshape(weights, hf.concat([hf.shape(weights), ones], 0))
    return hf.squeeze(weights, [-1]) if ranks[0] < ranks[1] else weights


def reduced(losses: Any, sample_weight: TensorHandle | None = None,
            reduction: str = "auto") -> Any:
    """The losses, times the weights of their examples, as one number; losses that are whole
    numbers are computed with as floats. ``ValueError`` for weights of other shapes."""
    losses = hf.convert_to_tensor(losses)
    dtype = losses.dtype.base_dtype
    if not dtype.is_floating:
        return hf.cast(reduced(hf.cast(losses, hf.float32), sample_weight, reduction), dtype)
    if sample_weight is not None:
        weights = fitted(sample_weight, losses)
        if None not in (weights.shape.ndims, losses.shape.ndims):
            weights = checked_weights(weights, losses)
        losses = losses * weights
    if reduction == "none":
        return losses
    total = hf.reduce_sum(losses)
    if reduction == "sum":
        return total
    return hf.div_no_nan(total, hf.cast(hf.size(losses), total.dtype.base_dtype))


class LossFunctionWrapper(Loss):
    """A loss whose examples have what a function says, which gets `options`, too."""

    def __init__(self, fn: Callable, reduction: str = "auto", name: str | None = None,
                 **options: Any) -> None:
        super().__init__(reduction, name or getattr(fn, "__name__", None))
        self.fn, self._options = fn, options

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> Any:
        """Return the losses of the examples."""
        return self.fn(y_true, y_pred, **self._options)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), **self._options}


class _OfFunction(LossFunctionWrapper):
    """A loss of one of the functions of this module."""

    function: Callable
    hidden: tuple[str, ...] = ()  # options of the function that the class has not

    def __init__(self, *args: Any, reduction: str = "auto", name: str | None = None,
                 **options: Any) -> None:
        function = type(self).function
        names = function.__code__.co_varnames[2:function.__code__.co_argcount]
        options.update(zip(names, args))
        known = {n: v for n, v in zip(names, function.__defaults__ or (), strict=True)
                 if n not in self.hidden}
        super().__init__(function, reduction, name, **{**known, **options})


def _loss(name: str, function: Callable, hidden: tuple[str, ...] = ()) -> Any:
    return type(name, (_OfFunction,), {"function": staticmethod(function), "__module__": __name__,
                                       "hidden": hidden,
                                       "__doc__": f"``{function.__name__}`` as an object."})


MeanSquaredError = _loss("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _loss("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _loss("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _loss("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
BinaryCrossentropy = _loss("BinaryCrossentropy", binary_crossentropy)
CategoricalCrossentropy = _loss("CategoricalCrossentropy", categorical_crossentropy)
SparseCategoricalCrossentropy = _loss("SparseCategoricalCrossentropy",
                                      sparse_categorical_crossentropy, ("axis",))
Hinge = _loss("Hinge", hinge)
SquaredHinge = _loss("SquaredHinge", squared_hinge)
CategoricalHinge = _loss("CategoricalHinge", categorical_hinge)
Poisson = _loss("Poisson", poisson)
LogCosh = _loss("LogCosh", logcosh)
Huber = _loss("Huber", huber_loss)
KLDivergence = _loss("KLDivergence", kullback_leibler_divergence)
CosineSimilarity = _loss("CosineSimilarity", cosine_similarity)

_NAMED = {name: value for name, value in globals().items()
          if callable(value) and not name.startswith("_")
          and name not in ("Any", "Callable", "fitted", "reduced", "Loss", "LossFunctionWrapper")}


def get(identifier: Any) -> Any:
    """Return the loss of a name, of a configuration (``class_name``, ``config``) or itself; None
    stays None. ``ValueError`` for other names."""
    if isinstance(identifier, dict) and "class_name" in identifier:
        return lookup.instance(_NAMED, identifier, "loss function")
    if isinstance(identifier, str):
        found = lookup.named(_NAMED, identifier, "loss function")
        return found() if isinstance(found, type) else found
    if identifier is None or callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret loss function identifier: {identifier}")


serialize = lookup.serialized
deserialize = get
