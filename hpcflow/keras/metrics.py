"""Metrics of models: functions of examples, and objects that accumulate over batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.keras import lookup, losses
from hpcflow.keras.accumulators import (  # noqa: F401
    Mean,
    MeanMetricWrapper,
    MeanRelativeError,
    MeanTensor,
    Metric,
    RootMeanSquaredError,
    Sum,
)
from hpcflow.keras.confusion import (  # noqa: F401
    AUC,
    FalseNegatives,
    FalsePositives,
    MeanIoU,
    Precision,
    Recall,
    SensitivityAtSpecificity,
    SpecificityAtSensitivity,
    TrueNegatives,
    TruePositives,
)
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

if TYPE_CHECKING:
    from hpcflow.graph.likes import Identifier, TensorLike
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
