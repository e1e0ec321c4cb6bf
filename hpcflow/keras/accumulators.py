"""Metrics that accumulate over batches in variables: their base, sums and means."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.dtypes import DTypeLike
from hpcflow.keras import initializers
from hpcflow.keras.losses import fitted
from hpcflow.keras.session import batch_get_value, get_session, unique_name
from hpcflow.keras.settings import floatx
from hpcflow.layers.base import _snake_case
from hpcflow.nn.weighting import broadcast_weights, squeeze_weights

if TYPE_CHECKING:
    from hpcflow.graph.likes import InitializerLike, TensorLike
    from hpcflow.graph.operation import Operation


class Metric:
    """A metric that accumulates over batches in variables: the base class.

    A derived class makes variables by :meth:`add_weight`, and defines :meth:`update_state` and
    :meth:`result`. The operations that change variables in an ``update_state`` that returns nothing
    are all run with an update.
    """

    stateful = built = True

    def __init__(self, name: str | None = None, dtype: DTypeLike | None = None,
                 **keywords: Any) -> None:
        self.name = name or unique_name(_snake_case(type(self).__name__))
        self._dtype = hf.as_dtype(dtype or floatx())
        self.weights: list[Any] = []
        self._named: list[tuple[str, Any]] = []  # the variables by the names that they were given
        self.updates: list[Any] = []

    def __init_subclass__(cls) -> None:
        if "update_state" in vars(cls):
            cls.update_state = _gathering(cls.update_state)  # type: ignore[method-assign]

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self._dtype.name

    @property
    def variables(self) -> list:
        """The variables, none of which is trained."""
        return self.weights

    non_trainable_weights = non_trainable_variables = variables

    @property
    def trainable_weights(self) -> list:
        """Return an empty list."""
        return []

    trainable_variables = trainable_weights

    def add_weight(self, name: str, shape: Any = (), aggregation: Any = None,
                   synchronization: Any = None, initializer: InitializerLike | None = None,
                   dtype: Any = None) -> Any:
        """Return a new variable of the metric, named by the name scope that is open."""
        first = initializers.get(initializer or "zeros")
        first = first() if isinstance(first, type) else first
        around = hf.get_default_graph().get_name_scope()
        with hf.init_scope(), hf.name_scope(None):
            made = hf.Variable(lambda: first(hf.TensorShape(shape).as_list(),
                                             dtype=hf.as_dtype(dtype or self._dtype)), False,
                               [hf.GraphKeys.LOCAL_VARIABLES], name=f"{around}/{name}".lstrip("/"),
                               use_resource=True)
        self.weights.append(made)
        self._named.append((name, made))
        return made

    @property
    def _checkpoint_dependencies(self) -> list[tuple[str, Any]]:
        return self._named

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Return the result after an update."""
        with hf.control_dependencies([self.update_state(*args, **keywords)]):
            result = hf.identity(self.result())
        result._metric_obj = self
        return result

    def update_state(self, *args: Any, **keywords: Any) -> Any:
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


def _gathering(method: Callable) -> Callable:
    """``update_state`` with an operation for its result, also where it returns none."""

    @functools.wraps(method)
    def update_state(self: Metric, *args: Any, **keywords: Any) -> Any:
        before = hf.get_default_graph().version
        step = method(self, *args, **keywords)
        if step is None:
            made = hf.get_default_graph().get_operations()[before:]
            begin = [v.initializer for v in self.weights]
            step = hf.group(*[op for op in made if _changes(op) and op not in begin])
        return step if isinstance(step, hf.Operation) else step.op

    return update_state


def _changes(op: Operation) -> bool:
    """True for an operation that changes a variable, in no branch and no loop."""
    return op.op_def.is_stateful and "Assign" in op.type and op._control_flow_context is None


def weighted(values: Any, sample_weight: Any, reduce: Callable = hf.reduce_mean) -> tuple[Any, Any]:
    """Values times their weights, and the weights, one for each value; None without any.

    Weights have as many dimensions as `values`, one more or less of size 1, or those of the batch
    alone: then `reduce` makes one value of each example.
    """
    if sample_weight is None:
        return values, None
    weights = squeeze_weights(hf.cast(sample_weight, values.dtype.base_dtype), values)
    if weights.shape.ndims is None:
        weights = fitted(weights, values)
    try:
        weights = broadcast_weights(weights, values)
    except ValueError:
        values = reduce(values, list(range(weights.shape.ndims or 0, values.shape.ndims)))
    return values * weights, weights


def matched(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Labels and predictions without a last dimension of size 1 that only one of them has."""
    if y_true.shape.ndims is None or y_pred.shape.ndims is None:
        excess = hf.rank(y_pred) - hf.rank(y_true)
        return (_dropped(hf.equal(excess, -1), y_true), _dropped(hf.equal(excess, 1), y_pred))
    excess = y_pred.shape.ndims - y_true.shape.ndims
    if excess == 1 and y_pred.shape[-1].value in (1, None):
        y_pred = hf.squeeze(y_pred, [-1])
    elif excess == -1 and y_true.shape[-1].value in (1, None):
        y_true = hf.squeeze(y_true, [-1])
    return y_true, y_pred


def _dropped(excess: Any, tensor: Any) -> Any:
    is_one = hf.reduce_all(hf.equal(hf.shape(tensor)[-1:], 1))
    return hf.cond(hf.logical_and(excess, is_one), lambda: hf.squeeze(tensor, [-1]),
                   lambda: hf.identity(tensor))


class Sum(Metric):
    """The sum of values, which may have weights."""

    _reduce = staticmethod(hf.reduce_sum)

    def __init__(self, name: str | None = "sum", dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Return an operation that takes values in."""
        values, _ = weighted(hf.cast(values, self._dtype), sample_weight, self._reduce)
        return self.total.assign_add(hf.reduce_sum(values))

    def result(self) -> Any:
        """Return the sum."""
        return hf.identity(self.total)


class Mean(Sum):
    """The mean of values, which may have weights."""

    _reduce = staticmethod(hf.reduce_mean)

    def __init__(self, name: str | None = "mean", dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Return an operation that takes values in."""
        values, weights = weighted(hf.cast(values, self._dtype), sample_weight, self._reduce)
        count = hf.cast(hf.size(values), self._dtype) if weights is None else hf.reduce_sum(weights)
        with hf.control_dependencies([self.total.assign_add(hf.reduce_sum(values))]):
            return self.count.assign_add(count)

    def result(self) -> Any:
        """Return the mean, 0 of nothing."""
        return hf.div_no_nan(self.total, self.count)


class _OfPairs(Mean):
    """The mean of numbers that :meth:`_values` makes of labels and predictions."""

    def _values(self, y_true: Any, y_pred: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its values")

    def update_state(self, y_true: Any, y_pred: Any,  # type: ignore[override]
                     sample_weight: TensorLike | None = None) -> Any:
        """Return an operation that takes a batch in."""
        pair = matched(hf.cast(y_true, self._dtype), hf.cast(y_pred, self._dtype))
        return super().update_state(self._values(*pair), sample_weight)


class MeanMetricWrapper(_OfPairs):
    """A metric: the mean of a function of each example."""

    def __init__(self, fn: Callable, name: str | None = None, dtype: DTypeLike | None = None,
                 **options: Any) -> None:
        super().__init__(name or fn.__name__, dtype)
        self._fn, self._fn_options = fn, options

    def _values(self, y_true: Any, y_pred: Any) -> Any:
        return self._fn(y_true, y_pred, **self._fn_options)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), **_plain(self._fn_options)}


class RootMeanSquaredError(_OfPairs):
    """The square root of the mean of squared differences."""

    def __init__(self, name: str | None = "root_mean_squared_error",
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)

    def _values(self, y_true: Any, y_pred: Any) -> Any:
        return hf.squared_difference(y_pred, y_true)

    def result(self) -> Any:
        """Return the root."""
        return hf.sqrt(super().result())


class MeanRelativeError(_OfPairs):
    """The mean of absolute differences over `normalizer`, which has the shape of predictions; 0
    where that is 0."""

    def __init__(self, normalizer: TensorLike, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(name or unique_name("mean_relative_error"), dtype)
        self.normalizer = hf.cast(normalizer, self._dtype)

    def _values(self, y_true: Any, y_pred: Any) -> Any:
        self.normalizer, y_pred = matched(self.normalizer, y_pred)
        y_pred.shape.assert_is_compatible_with(y_true.shape)
        return hf.div_no_nan(hf.abs(y_true - y_pred), self.normalizer)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), **_plain({"normalizer": self.normalizer})}


def _plain(options: dict) -> dict:
    """Options with the values of those that are tensors."""
    return {k: batch_get_value([v])[0] if isinstance(v, (hf.Tensor, hf.Variable)) else v
            for k, v in options.items()}


class MeanTensor(Metric):
    """The means, element by element, of tensors of one shape, which the first of them has.

    ``ValueError`` for another shape, and for the result before there is a tensor.
    """

    def __init__(self, name: str | None = "mean_tensor", dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.total: Any = None
        self.count: Any = None

    def update_state(self, values: Any, sample_weight: TensorLike | None = None) -> Any:
        """Return an operation that takes a tensor in."""
        values = hf.cast(values, self._dtype)
        if self.total is None:
            self.total = self.add_weight("total", values.shape)
            self.count = self.add_weight("count", values.shape)
            get_session().run([v.initializer for v in self.weights])
        elif values.shape.as_list() != self.total.shape.as_list():
            raise ValueError("MeanTensor input values must always have the same shape. Expected "
                             f"shape (set during the first call): {self.total.shape}. Got: "
                             f"{values.shape}")
        ones = hf.ones_like(values)
        values, weights = weighted(values, sample_weight)
        with hf.control_dependencies([self.total.assign_add(values)]):
            return self.count.assign_add(ones if weights is None else ones * weights)

    def result(self) -> Any:
        """Return the means, 0 of nothing."""
        if self.total is None:
            raise ValueError("MeanTensor does not have any result yet. Please call the MeanTensor "
                             "instance or use `.update_state(value)` before retrieving the result.")
        return hf.div_no_nan(self.total, self.count)
