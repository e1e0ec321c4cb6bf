"""Metrics of models: functions of examples, and objects that accumulate over batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.dtypes import DTypeLike
from hpcflow.keras import lookup, losses
from hpcflow.keras.losses import (  # noqa: F401
    KLD,
    MAE,
    MAPE,
    MSE,
    MSLE,
    binary_crossentropy,
    categorical_crossentropy,
    hinge,
    kld,
    kullback_leibler_divergence,
    mae,
    mape,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    mean_squared_logarithmic_error,
    mse,
    msle,
    poisson,
    sparse_categorical_crossentropy,
    squared_hinge,
)
from hpcflow.keras.session import get_session, unique_name

if TYPE_CHECKING:
    from hpcflow.graph.likes import Identifier, InitializerLike, TensorLike
    from hpcflow.graph.operation import Tensor


def _floats(found: Tensor) -> Any:
    return hf.cast(found, hf.float32)


def accuracy(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """1 where the prediction is the label, else 0."""
    y_pred = hf.convert_to_tensor(y_pred)
    return _floats(hf.equal(hf.cast(y_true, y_pred.dtype.base_dtype), y_pred))


def binary_accuracy(y_true: TensorLike, y_pred: Any, threshold: float = 0.5) -> Any:
    """Return the fraction, along the last dimension, of predictions on the label's side."""
    y_pred = hf.convert_to_tensor(y_pred)
    side = hf.cast(y_pred > threshold, y_pred.dtype.base_dtype)
    return hf.reduce_mean(_floats(hf.equal(hf.cast(y_true, y_pred.dtype.base_dtype), side)), -1)


def categorical_accuracy(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """Return 1.0 for each example whose largest prediction is at its one-hot label, else 0.0."""
    return _floats(hf.equal(hf.argmax(y_true, -1), hf.argmax(y_pred, -1)))


def _numbers(y_true: Any, y_pred: TensorLike) -> Any:
    """Return class indices, without a last dimension of size 1."""
    y_true = hf.cast(y_true, hf.int64)
    if y_true.shape.ndims is not None and y_true.shape.ndims == hf.convert_to_tensor(
            y_pred).shape.ndims:
        return hf.squeeze(y_true, [-1])
    return y_true


def sparse_categorical_accuracy(y_true: TensorLike, y_pred: TensorLike) -> Any:
    """Return 1.0 for each example whose largest prediction is at its integer label, else 0.0."""
    return _floats(hf.equal(_numbers(y_true, y_pred), hf.argmax(y_pred, -1)))


def top_k_categorical_accuracy(y_true: TensorLike, y_pred: TensorLike, k: int = 5) -> Any:
    """Return 1.0 for each example with its one-hot label among the k largest predictions, or 0."""
    return _floats(hf.nn.in_top_k(y_pred, hf.argmax(y_true, -1), k))


def sparse_top_k_categorical_accuracy(y_true: TensorLike, y_pred: TensorLike, k: int = 5) -> Any:
    """Return 1.0 for each example with its integer label among the k largest predictions, or 0."""
    return _floats(hf.nn.in_top_k(y_pred, _numbers(y_true, y_pred), k))


def cosine_proximity(y_true: TensorLike, y_pred: TensorLike, axis: int = -1) -> Any:
    """Return the cosine of the angle between the two; the loss of this name is minus it."""
    return -losses.cosine_similarity(y_true, y_pred, axis)


cosine = cosine_proximity


class Metric:
    """A metric that accumulates over batches in variables: the base class.

    A derived class makes variables by :meth:`add_weight`, and defines :meth:`update_state` and
    :meth:`result`.
    """

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None,
                 **keywords: Any) -> None:
        self.name = name or unique_name(lookup_name(type(self)))
        self._dtype = hf.as_dtype(dtype or hf.float32)
        self.weights: list[Any] = []

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self._dtype.name

    @property
    def variables(self) -> list:
        """The variables."""
        return self.weights

    def add_weight(self, name: str, shape: Any = (), aggregation: Any = None,
                   synchronization: Any = None, initializer: InitializerLike | None = None,
                   dtype: Any = None) -> Any:
        """Return a new variable of the metric."""
        from hpcflow.keras import initializers

        first = initializers.get(initializer or "zeros")
        with hf.init_scope(), hf.name_scope(None):
            made = hf.Variable(lambda: first(list(shape), dtype=dtype or self._dtype), False,
                               [hf.GraphKeys.LOCAL_VARIABLES], name=f"{self.name}/{name}")
        self.weights.append(made)
        return made

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return the result after an update."""
        with hf.control_dependencies([self.update_state(*args, **keywords)]):
            return hf.identity(self.result())

    def update_state(self, y_true: TensorLike, y_pred: TensorLike,
                     sample_weight: TensorLike | None = None) -> Any:
        """Return an operation that takes a batch in."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a batch does")

    def result(self) -> Any:
        """Return the value of the metric."""
        raise NotImplementedError(f"{type(self).__name__} does not say its result")

    def reset_states(self) -> None:
        """Set the variables to what they begin with."""
        get_session().run([v.initializer for v in self.weights])

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"name": self.name, "dtype": self.dtype}

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """Return a metric of a configuration."""
        return cls(**config)


def lookup_name(kind: type) -> str:
    """The name of a metric of a class: ``mean_squared_error``."""
    from hpcflow.layers.base import _snake_case

    return _snake_case(kind.__name__)


class Mean(Metric):
    """The mean of values, which may have weights."""

    def __init__(self, name: str | None = "mean", dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.total, self.count = self.add_weight("total"), self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Return an operation that takes values in."""
        values = hf.cast(values, self._dtype)
        count = hf.cast(hf.size(values), self._dtype)
        if sample_weight is not None:
            weights = _spread(hf.cast(sample_weight, self._dtype), values)
            values, count = values * weights, hf.reduce_sum(weights)
        return hf.group(hf.assign_add(self.total, hf.reduce_sum(values)),
                        hf.assign_add(self.count, count))

    def result(self) -> Any:
        """Return the mean, 0 of nothing."""
        return hf.div_no_nan(hf.convert_to_tensor(self.total), hf.convert_to_tensor(self.count))


class Sum(Metric):
    """The sum of values, which may have weights."""

    def __init__(self, name: str | None = "sum", dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        """Return an operation that takes values in."""
        values = hf.cast(values, self._dtype)
        if sample_weight is not None:
            values = values * _spread(hf.cast(sample_weight, self._dtype), values)
        return hf.assign_add(self.total, hf.reduce_sum(values)).op

    def result(self) -> Any:
        """Return the sum."""
        return hf.identity(self.total)


def _spread(weights: TensorLike, values: Sequence[TensorLike]) -> Any:
    """Broadcast the weights of examples to the values."""
    return losses.fitted(weights, values) * hf.ones_like(values)


class MeanMetricWrapper(Mean):
    """A metric: the mean of a function of each example."""

    def __init__(self, fn: Callable, name: str | None = None, dtype: DTypeLike | None = None,
                 **options: Any) -> None:
        super().__init__(name or fn.__name__, dtype)
        self._fn, self._fn_options = fn, options

    def update_state(self, y_true: TensorLike, y_pred: TensorLike,  # type: ignore[override]
                     sample_weight: TensorLike | None = None) -> Any:
        """Return an operation that takes a batch in."""
        return super().update_state(self._fn(y_true, y_pred, **self._fn_options), sample_weight)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), **self._fn_options}


def _metric(kind: str, function: Callable, name: str, *options: str) -> Any:
    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        given = dict(zip((*options, "name", "dtype"), args))
        given.update(keywords)
        MeanMetricWrapper.__init__(self, function, **{"name": name, **given})

    return type(kind, (MeanMetricWrapper,), {
        "__init__": __init__, "__module__": __name__,
        "__doc__": f"The mean of ``{function.__name__}``."})


Accuracy = _metric("Accuracy", accuracy, "accuracy")
BinaryAccuracy = _metric("BinaryAccuracy", binary_accuracy, "binary_accuracy")
CategoricalAccuracy = _metric("CategoricalAccuracy", categorical_accuracy, "categorical_accuracy")
SparseCategoricalAccuracy = _metric("SparseCategoricalAccuracy", sparse_categorical_accuracy,
                                    "sparse_categorical_accuracy")
TopKCategoricalAccuracy = _metric("TopKCategoricalAccuracy", top_k_categorical_accuracy,
                                  "top_k_categorical_accuracy", "k")
SparseTopKCategoricalAccuracy = _metric(
    "SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy,
    "sparse_top_k_categorical_accuracy", "k")
MeanSquaredError = _metric("MeanSquaredError", mean_squared_error, "mean_squared_error")
MeanAbsoluteError = _metric("MeanAbsoluteError", mean_absolute_error, "mean_absolute_error")
MeanAbsolutePercentageError = _metric("MeanAbsolutePercentageError",
                                      mean_absolute_percentage_error,
                                      "mean_absolute_percentage_error")
MeanSquaredLogarithmicError = _metric("MeanSquaredLogarithmicError",
                                      mean_squared_logarithmic_error,
                                      "mean_squared_logarithmic_error")
Hinge = _metric("Hinge", hinge, "hinge")
SquaredHinge = _metric("SquaredHinge", squared_hinge, "squared_hinge")
CategoricalHinge = _metric("CategoricalHinge", losses.categorical_hinge, "categorical_hinge")
Poisson = _metric("Poisson", poisson, "poisson")
KLDivergence = _metric("KLDivergence", kullback_leibler_divergence, "kullback_leibler_divergence")
CosineSimilarity = _metric("CosineSimilarity", cosine_proximity, "cosine_similarity")
LogCoshError = _metric("LogCoshError", losses.logcosh, "logcosh")
BinaryCrossentropy = _metric("BinaryCrossentropy", binary_crossentropy, "binary_crossentropy")
CategoricalCrossentropy = _metric("CategoricalCrossentropy", categorical_crossentropy,
                                  "categorical_crossentropy")
SparseCategoricalCrossentropy = _metric("SparseCategoricalCrossentropy",
                                        sparse_categorical_crossentropy,
                                        "sparse_categorical_crossentropy")


class RootMeanSquaredError(Mean):
    """The square root of the mean of squared differences."""

    def __init__(self, name: str | None = "root_mean_squared_error",
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: TensorLike, y_pred: TensorLike,  # type: ignore[override]
                     sample_weight: TensorLike | None = None) -> Any:
        """Return an operation that takes a batch in."""
        y_pred = hf.cast(y_pred, self._dtype)
        return super().update_state(
            hf.squared_difference(y_pred, hf.cast(y_true, self._dtype)), sample_weight)

    def result(self) -> Any:
        """Return the root."""
        return hf.sqrt(super().result())


# ---------------------------------------------------------------- counts


class _Counts(Metric):
    """True and false positives and negatives, at thresholds."""

    kinds: tuple[str, ...] = ()

    def __init__(self, thresholds: Any = None, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.thresholds = [0.5] if thresholds is None else np.atleast_1d(thresholds).tolist()
        self._scalar = thresholds is None or np.ndim(thresholds) == 0
        self._counts = {kind: self.add_weight(kind, [len(self.thresholds)])
                        for kind in self.kinds}

    def update_state(self, y_true: TensorLike, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return an operation that takes a batch in."""
        y_pred = hf.cast(y_pred, hf.float32)
        weights = None if sample_weight is None else hf.reshape(
            _spread(hf.cast(sample_weight, hf.float32), y_pred), [1, -1])
        labels = hf.reshape(hf.cast(y_true, hf.bool), [1, -1])
        limits = np.array(self.thresholds, np.float32)[:, None]
        above = hf.reshape(y_pred, [1, -1]) > limits
        labels = hf.logical_and(labels, hf.ones_like(above))
        found = {"true_positives": (labels, above),
                 "false_positives": (hf.logical_not(labels), above),
                 "false_negatives": (labels, hf.logical_not(above)),
                 "true_negatives": (hf.logical_not(labels), hf.logical_not(above))}
        steps = []
        for kind, count in self._counts.items():
            values = hf.cast(hf.logical_and(*found[kind]), hf.float32)
            values = values if weights is None else values * weights
            steps.append(hf.assign_add(count, hf.reduce_sum(values, 1)))
        return hf.group(*steps)

    def _told(self, values: Any) -> Any:
        return values[0] if self._scalar else values

    def result(self) -> Any:
        """Return the count."""
        return self._told(hf.convert_to_tensor(self._counts[self.kinds[0]]))

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "thresholds": self.thresholds}


class TruePositives(_Counts):
    """A count of true positives: predictions above the threshold whose label is true."""

    kinds = ("true_positives",)


class FalsePositives(_Counts):
    """A count of false positives: predictions above the threshold whose label is false."""

    kinds = ("false_positives",)


class TrueNegatives(_Counts):
    """A count of true negatives: predictions below the threshold whose label is false."""

    kinds = ("true_negatives",)


class FalseNegatives(_Counts):
    """A count of false negatives: predictions below the threshold whose label is true."""

    kinds = ("false_negatives",)


class Precision(_Counts):
    """The fraction of predictions above the threshold that are right."""

    kinds = ("true_positives", "false_positives")

    def result(self) -> Any:
        """Return the fraction, 0 of nothing."""
        right: Any
        right, other = (hf.convert_to_tensor(self._counts[k]) for k in self.kinds)
        return self._told(hf.div_no_nan(right, right + other))


class Recall(Precision):
    """The fraction of the true labels that are found."""

    kinds = ("true_positives", "false_negatives")


class AUC(_Counts):
    """The area under a curve over thresholds, by sums of trapezoids.

    Args:
        num_thresholds: how many thresholds there are, 0 and 1 nearly included.
        curve: ``ROC``, of true over false positive rates, or ``PR``, of precision over recall.
        summation_method: ``interpolation``, ``minoring`` or ``majoring``.
    """

    kinds = ("true_positives", "false_positives", "true_negatives", "false_negatives")

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC",
                 summation_method: str = "interpolation", name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        if curve not in ("ROC", "PR"):
            raise ValueError(f"Invalid AUC curve value: \"{curve}\".")
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError(f"Invalid AUC summation method value: \"{summation_method}\".")
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([-1e-7, *inner, 1 + 1e-7], name, dtype)
        self.curve, self.summation_method = curve, summation_method

    def result(self) -> Any:
        """Return the area."""
        tp: Any
        fp: Any
        tp, fp, tn, fn = (hf.convert_to_tensor(self._counts[k]) for k in self.kinds)
        if self.curve == "PR" and self.summation_method == "interpolation":
            return _area_of_precision(tp, fp, fn)
        recall = hf.div_no_nan(tp, tp + fn)
        x: Any
        y: Any
        x, y = ((hf.div_no_nan(fp, fp + tn), recall) if self.curve == "ROC"
                else (recall, hf.div_no_nan(tp, tp + fp)))
        heights: Any = {"interpolation": lambda: (y[:-1] + y[1:]) / 2.0,
                        "minoring": lambda: hf.minimum(y[:-1], y[1:]),
                        "majoring": lambda: hf.maximum(y[:-1], y[1:])}[self.summation_method]()
        return hf.reduce_sum((x[:-1] - x[1:]) * heights)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"name": self.name, "dtype": self.dtype, "num_thresholds": len(self.thresholds),
                "curve": self.curve, "summation_method": self.summation_method}


def _area_of_precision(tp: Any, fp: Any, fn: Any) -> Any:
    """The area under precision over recall, counts between thresholds taken as linear (Davis and
    Goadrich, 2006)."""
    steps = tp[:-1] - tp[1:]
    positives = tp + fp
    slope = hf.div_no_nan(steps, hf.maximum(positives[:-1] - positives[1:], 0.0))
    intercept = tp[1:] - slope * positives[1:]
    both = hf.logical_and(positives[:-1] > 0, positives[1:] > 0)
    ratio = hf.where(both, hf.div_no_nan(positives[:-1], hf.maximum(positives[1:], 0.0)),
                     hf.ones_like(positives[1:]))
    parts = hf.div_no_nan(slope * (steps + intercept * hf.log(ratio)),
                          hf.maximum(tp[1:] + fn[1:], 0.0))
    return hf.reduce_sum(parts)


_FUNCTIONS = {f.__name__: f for f in (
    accuracy, binary_accuracy, categorical_accuracy, sparse_categorical_accuracy,
    top_k_categorical_accuracy, sparse_top_k_categorical_accuracy, cosine_proximity)}
_NAMED = {**{n: v for n, v in vars(losses).items() if callable(v) and n[0].islower()
             and n not in ("fitted", "reduced", "get", "serialize", "deserialize")},
          "mse": mse, "MSE": MSE, "mae": mae, "MAE": MAE, "mape": mape, "MAPE": MAPE,
          "msle": msle, "MSLE": MSLE, **_FUNCTIONS,
          **{n: v for n, v in globals().items() if isinstance(v, type)
             and issubclass(v, Metric) and not n.startswith("_")}}


def get(identifier: Any) -> Any:
    """Return the metric of a name, or itself. ``ValueError`` for what is not known."""
    if isinstance(identifier, str):
        found = lookup.named(_NAMED, identifier, "metric function")
        return found() if isinstance(found, type) else found
    if callable(identifier) or isinstance(identifier, Metric):
        return identifier
    raise ValueError(f"Could not interpret metric function identifier: {identifier}")


serialize = lookup.serialized
deserialize = get


def chosen(identifier: Identifier, loss: Callable[..., Any], output: TensorLike) -> Metric:
    """A metric object for what ``compile`` was told, "accuracy" by the loss and the output.

    As in 1.x its name is that of the function, and ``acc`` and ``ce`` for accuracies and cross
    entropies that the loss decides.
    """
    if isinstance(identifier, Metric):
        return identifier
    for name, kind in (("acc", "accuracy"), ("ce", "crossentropy")):
        if identifier in (name, kind):
            return MeanMetricWrapper(_by_loss(kind, loss, output), name)
    found = get(identifier)
    return found if isinstance(found, Metric) else (
        MeanMetricWrapper(found, getattr(found, "__name__", None)))


def _by_loss(kind: str, loss: Callable[..., Any], output: Any) -> Any:
    dims = output.shape
    sparse = "sparse_categorical_crossentropy" in (
        getattr(loss, "__name__", ""), getattr(loss, "name", ""))
    binary = "binary_crossentropy" in (getattr(loss, "__name__", ""), getattr(loss, "name", ""))
    if (dims.ndims and dims[-1].value == 1) or binary:
        return _NAMED[f"binary_{kind}"]
    return _NAMED[f"{'sparse_' if sparse else ''}categorical_{kind}"]


__getattr__ = named_otherwise(__name__)
