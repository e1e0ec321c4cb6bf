"""Models as estimators of scikit-learn, which is not needed itself."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.keras.models import Sequential
from hpcflow.keras.utils import to_categorical
from hpcflow.platform.inspecting import fn_args

__all__ = ["KerasClassifier", "KerasRegressor"]


class BaseWrapper:
    """A model that :meth:`fit` builds, with the arguments that searches over parameters change.

    Args:
        build_fn: function, or object that is called, that returns a compiled model; if None the
            class itself has ``__call__``.
        **sk_params: arguments of `build_fn`, and of ``fit``, ``predict``, ``predict_classes`` and
            ``evaluate`` of the model.

    Raises ``ValueError`` for other arguments.
    """

    __call__: Any = None

    def __init__(self, build_fn: Any = None, **sk_params: Any) -> None:
        self.build_fn, self.sk_params = build_fn, sk_params
        self.check_params(sk_params)

    def _builds(self) -> Callable:
        """What is called for a model, a function."""
        if self.build_fn is None:
            return self.__call__
        is_function = isinstance(self.build_fn, (types.FunctionType, types.MethodType))
        return self.build_fn if is_function else self.build_fn.__call__

    def check_params(self, params: dict) -> None:
        """Raise ``ValueError`` for what no function takes."""
        functions = (Sequential.fit, Sequential.predict, Sequential.predict_classes,
                     Sequential.evaluate, self._builds())
        for name in params:
            if name != "nb_epoch" and not any(name in fn_args(f) for f in functions):
                raise ValueError(f"{name} is not a legal parameter")

    def get_params(self, **params: Any) -> dict:
        """Return the arguments."""
        return {**copy.deepcopy(self.sk_params), "build_fn": self.build_fn}

    def set_params(self, **params: Any) -> Any:
        """Change arguments, and return the estimator. ``ValueError`` as when it is made."""
        self.check_params(params)
        self.sk_params.update(params)
        return self

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Build a model and train it; return the history of the training."""
        build = self._builds()
        self.model = build(**self.filter_sk_params(build))
        y = to_categorical(y) if self._is_categorical() and np.ndim(y) != 2 else y
        told = {**copy.deepcopy(self.filter_sk_params(Sequential.fit)), **kwargs}
        return self.model.fit(x, y, **told)

    def _is_categorical(self) -> bool:
        loss = self.model.loss
        names = {loss if isinstance(loss, str) else getattr(loss, "__name__", ""),
                 getattr(loss, "name", "")}
        return "categorical_crossentropy" in names

    def filter_sk_params(self, fn: Callable, override: dict | None = None) -> dict:
        """Return those of the arguments that a function takes, and `override`."""
        names = fn_args(fn)
        own = {k: v for k, v in self.sk_params.items() if k in names}
        return {**own, **(override or {})}


class KerasClassifier(BaseWrapper):
    """A model of classes; they may be anything that can be sorted."""

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Build a model and train it on labels, or on rows with a column for each class."""
        y = np.array(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
        elif y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1):
            self.classes_ = np.unique(y)
            y = np.searchsorted(self.classes_, y)
        else:
            raise ValueError(f"Invalid shape for y: {y.shape}")
        self.n_classes_ = len(self.classes_)
        return super().fit(x, y, **kwargs)

    def predict(self, x: Any, **kwargs: Any) -> Any:
        """Return the classes."""
        told = self.filter_sk_params(Sequential.predict_classes, kwargs)
        return self.classes_[self.model.predict_classes(x, **told)]

    def predict_proba(self, x: Any, **kwargs: Any) -> Any:
        """Return the probabilities of the classes, a column for each of them."""
        told = self.filter_sk_params(Sequential.predict_proba, kwargs)
        found = self.model.predict_proba(x, **told)
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def score(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Return the accuracy. ``ValueError`` for a model that is compiled without."""
        y = np.searchsorted(self.classes_, y)
        y = to_categorical(y) if self._is_categorical() and np.ndim(y) != 2 else y
        found = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, kwargs))
        numbers = dict(zip(self.model.metrics_names, np.atleast_1d(found)))
        for name in ("accuracy", "acc"):
            if name in numbers:
                return numbers[name]
        raise ValueError("The model is not configured to compute accuracy. You should pass "
                         "`metrics=[\"accuracy\"]` to the `model.compile()` method.")


class KerasRegressor(BaseWrapper):
    """A model of numbers."""

    def predict(self, x: Any, **kwargs: Any) -> Any:
        """Return the numbers."""
        return np.squeeze(self.model.predict(
            x, **self.filter_sk_params(Sequential.predict, kwargs)))

    def score(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Return minus the loss."""
        found = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, kwargs))
        return -(found[0] if isinstance(found, list) else found)
