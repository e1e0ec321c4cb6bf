"""Estimators that are made of others, and optimizers whose gradients are limited."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpcflow.estimator.base import Estimator
from hpcflow.estimator.export import PredictOutput
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.sparse_tensor import is_sparse
from hpcflow.ops.math.clipping import clip_by_global_norm
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from hpcflow.optimizers import Optimizer

__all__ = ["add_metrics", "clip_gradients_by_norm", "forward_features"]


def add_metrics(estimator: Estimator, metric_fn: Callable[..., dict]) -> Estimator:
    """Return an estimator like `estimator` that has further metrics.

    ``metric_fn`` takes those of ``features``, ``labels``, ``predictions`` and ``config`` that it
    needs, and returns metrics by name; they come before those of the same name.
    Raises ``ValueError`` for another argument.
    """
    wanted = set(inspect.signature(metric_fn).parameters)
    known = {"features", "labels", "predictions", "config"}
    if wanted - known:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: "
                         f"{sorted(wanted - known)}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions,
                 "config": config}
        more = metric_fn(**{name: given[name] for name in wanted})
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **more})

    return _like(estimator, model_fn)


def forward_features(estimator: Estimator, keys: str | Sequence[str] | None = None,
                     sparse_default_values: Mapping[str, Any] | None = None) -> Estimator:
    """Return an estimator like `estimator` whose predictions have features, too.

    Args:
        estimator: its predictions must be a dict.
        keys: names of the features; all of them if None.
        sparse_default_values: by name of a sparse feature, what stands where it has no value.

    Raises ``TypeError`` for names that are no strings; ``ValueError`` in the model for a name that
    is no feature's or is a prediction's, and for a sparse feature without such a value.
    """
    names = [keys] if isinstance(keys, str) else None if keys is None else list(keys)
    if names is not None and not all(isinstance(n, str) for n in names):
        raise TypeError(f"keys should be either a string or a list of strings. Given: {keys}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        more = _forwarded(features, names, sparse_default_values or {}, spec.predictions)
        for name in ("predict", "serving_default"):
            output = (spec.export_outputs or {}).get(name)
            if isinstance(output, PredictOutput):
                output.outputs.update(more)
        return spec._replace(predictions={**spec.predictions, **more})

    return _like(estimator, model_fn)


def clip_gradients_by_norm(optimizer: Optimizer, clip_norm: float) -> Optimizer:
    """Return an optimizer like `optimizer`, the norm of all gradients together at most
    `clip_norm`."""
    return _Clipped(optimizer, clip_norm)


class _Clipped(Optimizer):
    """An optimizer that limits gradients and leaves the rest to another."""

    def __init__(self, optimizer: Optimizer, norm: float) -> None:
        super().__init__(False, f"ClipByNorm{optimizer.get_name()}")
        self._optimizer, self._norm = optimizer, norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Return (gradient, variable) pairs as ``Optimizer.compute_gradients`` does."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Iterable, global_step: Any = None,
                        name: str | None = None) -> Any:
        """Return the operation that applies the gradients once they are limited."""
        gradients, variables = zip(*grads_and_vars, strict=True)
        limited = clip_by_global_norm(list(gradients), self._norm)[0]
        return self._optimizer.apply_gradients(list(zip(limited, variables, strict=True)),
                                               global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """Return the slot of the optimizer within."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer within."""
        return self._optimizer.get_slot_names()


def _like(estimator: Estimator, model_fn: Callable[..., EstimatorSpec]) -> Estimator:
    return Estimator(model_fn, estimator.model_dir, estimator.config)


def _forwarded(features: Mapping[str, Any], names: list[str] | None,
               defaults: Mapping[str, Any], predictions: Any) -> dict[str, Tensor]:
    """The features to be forwarded, checked against the predictions."""
    if not isinstance(predictions, dict):
        raise ValueError("Predictions should be a dict to be able to forward features. Given: "
                         f"{type(predictions)}")
    found = {}
    for key in features if names is None else names:
        if key not in features:
            raise ValueError(f"keys should be exist in features. Key \"{key}\" is not in features "
                             f"dict. features dict has following keys: {list(features)}")
        if key in predictions:
            raise ValueError(f"Cannot forward feature key ({key}). Since it does exist in "
                             f"predictions. Existing prediction keys: {list(predictions)}")
        found[key] = _dense(key, features[key], defaults)
    return found


def _dense(key: str, feature: Any, defaults: Mapping[str, Any]) -> Tensor:
    if is_sparse(feature):
        if key not in defaults:
            raise ValueError(f"Feature ({key}) should be a Tensor. Please use `keys` argument of "
                             "forward_features to filter unwanted features, or add key to argument "
                             "`sparse_default_values`.")
        return sparse_tensor_to_dense(feature, default_value=defaults[key])
    if key in defaults:
        raise ValueError(f"Feature ({key}) is expected to be a `SparseTensor`.")
    return convert_to_tensor(feature)
