"""Estimators of ``contrib.learn``: those of ``hf.estimator`` by the older methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hpcflow import estimator as core
from hpcflow.contrib.learn.feeding import Feeder
from hpcflow.contrib.learn.metric_spec import metric_ops
from hpcflow.contrib.learn.model_fn import MetricKey, ModelFnOps, NotFittedError
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.contrib.learn.monitor import replace_monitors_with_hooks
from hpcflow.contrib.learn.run_config import RunConfig
from hpcflow.contrib.learn.signatures import placeholders, signatures_of
from hpcflow.data import Dataset
from hpcflow.estimator import exporting
from hpcflow.estimator.export import ServingInputReceiver
from hpcflow.estimator.features import argument_names
from hpcflow.estimator.spec import EstimatorSpec
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import Graph, get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.legacy import is_tensor
from hpcflow.metrics import mean
from hpcflow.optimizers.global_step import global_step_read
from hpcflow.platform import logging
from hpcflow.train.hooks import FeedFnHook


class Trainable:
    """What can be trained: it has :meth:`fit`."""

    def fit(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
            steps: int | None = None, batch_size: int | None = None,
            monitors: Sequence | None = None, max_steps: int | None = None) -> Any:
        """Train with `x` and `y`, or with what `input_fn` returns."""
        raise NotImplementedError(f"{type(self).__name__} has no fit")


class Evaluable:
    """What can be evaluated: it has :meth:`evaluate`."""

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
                 feed_fn: Callable | None = None, batch_size: int | None = None,
                 steps: int | None = None, metrics: dict | None = None, name: str | None = None,
                 checkpoint_path: str | None = None, hooks: Sequence | None = None) -> Any:
        """Return metrics over `x` and `y`, or over what `input_fn` returns."""
        raise NotImplementedError(f"{type(self).__name__} has no evaluate")


class BaseEstimator(Evaluable, Trainable):
    """An estimator whose graphs are made by ``_get_train_ops(features, labels)``,
    ``_get_eval_ops(features, labels, metrics)`` and ``_get_predict_ops(features)``, which return
    ``ModelFnOps``.

    `model_dir` and `config`, a ``RunConfig``, as of ``hf.estimator.Estimator``.
    """

    def __init__(self, model_dir: str | None = None, config: Any = None) -> None:
        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            made = self._ops(features, labels, mode)
            return made.exported_spec(*self._exported) if self._exported else made.full_spec()

        self._core = core.Estimator(model_fn, model_dir, config or RunConfig())
        self._labels_info: Any = None
        self._metrics: dict | None = None
        self._exported: tuple = ()

    @property
    def config(self) -> Any:
        """The run configuration of the estimator."""
        return self._core.config

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and summaries."""
        return self._core.model_dir

    def get_variable_names(self) -> list[str]:
        """The names in the latest checkpoint; ``ValueError`` without one."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> np.ndarray:
        """The value of a variable in the latest checkpoint; ``ValueError`` without one."""
        return self._core.get_variable_value(name)

    def fit(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
            steps: int | None = None, batch_size: int | None = None,
            monitors: Sequence | None = None, max_steps: int | None = None) -> Any:
        """Train, from the latest checkpoint on; returns the estimator.

        Args:
            x, y: arrays, frames or iterators of examples and labels.
            input_fn: instead of them, returns (features, labels): tensors, or dicts of them.
            steps: how many steps to go on for; None: to the end of the input.
            batch_size: examples of a step; by default all of `x`.
            monitors: monitors and hooks.
            max_steps: number of the last step, whatever was trained before.

        Raises ``ValueError`` for both `x` and `input_fn` or none, for both numbers of steps, and
        for no examples.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        input_fn, hooks = _input(x, y, input_fn, None, batch_size, True, None)
        hooks += replace_monitors_with_hooks(monitors, self)
        self._core.train(input_fn, hooks, steps, max_steps)
        return self

    def partial_fit(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
                    steps: int | None = 1, batch_size: int | None = None,
                    monitors: Sequence | None = None) -> Any:
        """As :meth:`fit`, for one step by default."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
                 feed_fn: Callable | None = None, batch_size: int | None = None,
                 steps: int | None = None, metrics: dict | None = None, name: str | None = None,
                 checkpoint_path: str | None = None, hooks: Sequence | None = None,
                 log_progress: bool = True) -> Any:
        """Return the metrics of the model over the data, with ``loss`` and ``global_step``.

        `metrics` are by name ``MetricSpec``s, or what :func:`metric_ops` says; `feed_fn` returns
        what each batch is fed, beside `input_fn`. Others as of :meth:`fit`, and of ``evaluate`` of
        ``hf.estimator.Estimator``.

        Raises ``ValueError`` as :meth:`fit`, and for metrics that are no dict; ``NotFittedError``
        without a checkpoint.
        """
        input_fn, feeding = _input(x, y, input_fn, feed_fn, batch_size, False, 1)
        if metrics is not None and not isinstance(metrics, dict):
            raise ValueError(f"Metrics argument should be None or dict. Got {metrics}.")
        path = checkpoint_path or self._trained()
        self._metrics = metrics
        try:
            return self._core.evaluate(input_fn, steps or None, [*feeding, *(hooks or ())], path,
                                       name)
        finally:
            self._metrics = None

    def predict(self, x: Any = None, input_fn: Callable | None = None,
                batch_size: int | None = None, outputs: Sequence[str] | None = None,
                as_iterable: bool = True, iterate_batches: bool = False) -> Any:
        """Return an iterator over the predictions, example by example.

        Args:
            x, batch_size: as of :meth:`fit`.
            input_fn: instead of `x`, returns features, or (features, labels). Without queues,
                data sets or feeds in it there is one batch.
            outputs: which predictions; all by default.
            as_iterable: False returns arrays: for all of `x`, or one batch of `input_fn`.
            iterate_batches: yield batches as they are.

        Raises ``ValueError`` as :meth:`fit` and for outputs that the model has not,
        ``NotFittedError`` without a checkpoint.
        """
        if x is not None and not as_iterable:
            return SKCompat(self).predict(x, batch_size)
        found = self._predicted(x, input_fn, batch_size, outputs,
                                iterate_batches or not as_iterable)
        return found if as_iterable else next(found)

    def _predicted(self, x: Any, input_fn: Callable | None, batch_size: int | None, outputs: Any,
                   batches: bool) -> Iterator:
        input_fn, hooks = _input(x, None, input_fn, None, batch_size, False, 1)
        constant = _OneBatch(input_fn)
        return self._core.predict(constant.input_fn, outputs, hooks or [constant], self._trained(),
                                  not batches)

    def export_savedmodel(self, export_dir_base: str, serving_input_fn: Callable,
                          default_output_alternative_key: str | None = None,
                          assets_extra: dict[str, str] | None = None, as_text: bool = False,
                          checkpoint_path: str | None = None, graph_rewrite_specs: Any = None,
                          strip_default_attrs: bool = False) -> bytes:
        """Write a SavedModel into a new directory of `export_dir_base`, named after the time.

        `serving_input_fn` returns ``InputFnOps``, what is fed; `default_output_alternative_key` is
        the head that is served by default, of several. Others as of ``export_savedmodel`` of
        ``hf.estimator.Estimator``.

        Returns the path, as bytes. Raises ``ValueError`` without `serving_input_fn`, for rewritten
        graphs and for an unknown head, ``NotFittedError`` without a checkpoint.
        """
        if serving_input_fn is None:
            raise ValueError("serving_input_fn must be defined.")
        if graph_rewrite_specs is not None:
            raise ValueError("graph_rewrite_specs: graphs are exported as they are")

        def receive() -> ServingInputReceiver:
            features, _, *fed = serving_input_fn()
            if not features:
                raise ValueError("Features must be defined.")
            if not fed or not fed[0]:
                raise ValueError("A default input_alternative must be provided.")
            return ServingInputReceiver(features, fed[0])

        self._exported = (default_output_alternative_key,)
        try:
            return exporting.export(self._core, export_dir_base, {ModeKeys.INFER: receive},
                                    assets_extra, as_text, checkpoint_path or self._trained(),
                                    strip_default_attrs)
        finally:
            self._exported = ()

    def run_as(self, config: Any) -> None:
        """Replace the run configuration by another one of the same task."""
        self._core.run_as(config)

    def _trained(self) -> str:
        path = self._core.latest_checkpoint()
        if path is None:
            raise NotFittedError(f"Couldn't find trained model at {self.model_dir}.")
        return path

    def _ops(self, features: Any, labels: Any, mode: str) -> ModelFnOps:
        """The ops of a mode in the default graph."""
        if mode == ModeKeys.INFER:
            return self._get_predict_ops(features)
        if self._labels_info is None:
            self._labels_info = signatures_of(labels)
        if mode == ModeKeys.TRAIN:
            global_step_read()  # random numbers follow from the number of ops
            return self._get_train_ops(features, labels)
        return self._get_eval_ops(features, labels, self._metrics)

    def _get_train_ops(self, features: Any, labels: Any) -> ModelFnOps:
        raise NotImplementedError(f"{type(self).__name__} must define _get_train_ops")

    def _get_eval_ops(self, features: Any, labels: Any, metrics: dict | None) -> ModelFnOps:
        raise NotImplementedError(f"{type(self).__name__} must define _get_eval_ops")

    def _get_predict_ops(self, features: Any) -> ModelFnOps:
        raise NotImplementedError(f"{type(self).__name__} must define _get_predict_ops")


class Estimator(BaseEstimator):
    """Trains, evaluates, uses and exports a model that a function describes.

    Args:
        model_fn: a function of features and labels, in this order, and of those of ``mode``,
            ``params``, ``config`` and ``model_dir`` that it names. It returns ``ModelFnOps``, or
            (predictions, loss, training op). For predictions, labels are placeholders like those of
            training, or None.
        model_dir, config: as of :class:`BaseEstimator`.
        params: given to `model_fn`.
        feature_engineering_fn: changes (features, labels) before `model_fn` is given them.

    Raises ``ValueError`` for params that `model_fn` does not take.
    """

    def __init__(self, model_fn: Callable | None = None, model_dir: str | None = None,
                 config: Any = None, params: Any = None,
                 feature_engineering_fn: Callable | None = None) -> None:
        super().__init__(model_dir, config)
        if model_fn is not None:
            takes = "params" in argument_names(model_fn)
            if params is not None and not takes:
                raise ValueError(f"Estimator's model_fn ({model_fn}) does not have a params "
                                 f"argument, but params ({params}) were passed to the Estimator's "
                                 "constructor.")
            if params is None and takes:
                logging.warning("Estimator's model_fn (%s) includes params argument, but params "
                                "are not passed to Estimator.", model_fn)
        self._model_fn, self.params = model_fn, params
        self._feature_engineering_fn = feature_engineering_fn

    @property
    def model_fn(self) -> Callable:
        """``model_fn(features, labels, mode, config)``, with the params bound."""

        def public(features: Any, labels: Any, mode: str, config: Any) -> ModelFnOps:
            return self._call_model_fn(features, labels, mode, config=config)

        return public

    def _call_model_fn(self, features: Any, labels: Any, mode: str, metrics: dict | None = None,
                       config: Any = None) -> ModelFnOps:
        assert self._model_fn is not None
        if self._feature_engineering_fn is not None:
            features, labels = self._feature_engineering_fn(features, labels)
        given = {"mode": mode, "params": self.params, "config": config or self.config,
                 "model_dir": self.model_dir}
        names = argument_names(self._model_fn)
        found = self._model_fn(features, labels, **{
            name: value for name, value in given.items() if name in names})
        if not isinstance(found, ModelFnOps):
            if len(found) != 3:
                raise ValueError("Unrecognized value returned by model_fn, please return "
                                 "ModelFnOps.")
            found = ModelFnOps(mode, *found)
        if metrics:
            found.eval_metric_ops.update(metric_ops(metrics, features, labels, found.predictions))
        return found

    def _get_train_ops(self, features: Any, labels: Any) -> ModelFnOps:
        return self._call_model_fn(features, labels, ModeKeys.TRAIN)

    def _get_eval_ops(self, features: Any, labels: Any, metrics: dict | None) -> ModelFnOps:
        found = self._call_model_fn(features, labels, ModeKeys.EVAL, metrics)
        if MetricKey.LOSS not in found.eval_metric_ops:
            found.eval_metric_ops[MetricKey.LOSS] = mean(found.loss)
        return found

    def _get_predict_ops(self, features: Any) -> ModelFnOps:
        return self._call_model_fn(features, placeholders(self._labels_info), ModeKeys.INFER)


class SKCompat:
    """An estimator by the methods of scikit-learn, for arrays, frames and iterators."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self._estimator = estimator

    def fit(self, x: Any, y: Any, batch_size: int | None = 128, steps: int | None = None,
            max_steps: int | None = None, monitors: Sequence | None = None) -> SKCompat:
        """Train, see :meth:`BaseEstimator.fit`; returns itself."""
        self._estimator.fit(x, y, steps=steps, batch_size=batch_size, monitors=monitors,
                            max_steps=max_steps)
        return self

    def score(self, x: Any, y: Any, batch_size: int | None = 128, steps: int | None = None,
              metrics: dict | None = None, name: str | None = None) -> Any:
        """Return metrics, see :meth:`BaseEstimator.evaluate`."""
        return BaseEstimator.evaluate(self._estimator, x, y, batch_size=batch_size, steps=steps,
                                      metrics=metrics, name=name)

    def predict(self, x: Any, batch_size: int | None = 128,
                outputs: Sequence[str] | None = None) -> Any:
        """Return the predictions for all of `x`: an array, or a dict of arrays."""
        found = list(self._estimator._predicted(x, None, batch_size, outputs, True))
        if not isinstance(found[0], dict):
            return np.concatenate(found, axis=0)
        return {key: np.concatenate([batch[key] for batch in found]) for key in found[0]}


class _OneBatch(SessionRunHook):
    """Ends predictions after a batch where nothing in the graph could give another one."""

    def __init__(self, input_fn: Callable) -> None:
        self._input_fn, self._goes_on = input_fn, False

    def input_fn(self) -> Any:
        """Return the input."""
        found = self._input_fn()
        self._goes_on = isinstance(found, Dataset) or bool(
            get_collection(GraphKeys.QUEUE_RUNNERS))
        return found

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ask to stop."""
        if not self._goes_on:
            run_context.request_stop()


def _input(x: Any, y: Any, input_fn: Callable | None, feed_fn: Callable | None,
           batch_size: int | None, shuffle: bool, epochs: int | None) -> tuple[Callable, list]:
    """An input function, and the hooks that feed it."""
    if input_fn is not None:
        if x is not None or y is not None:
            raise ValueError("Can not provide both input_fn and x or y.")
        if batch_size is not None:
            raise ValueError("Can not provide both input_fn and batch_size.")
        return input_fn, [FeedFnHook(feed_fn)] if feed_fn else []
    if x is None:
        raise ValueError("Either x or input_fn must be provided.")
    if is_tensor(x) or is_tensor(y):
        raise ValueError("Inputs cannot be tensors. Please provide input_fn.")
    if feed_fn is not None:
        raise ValueError("Can not provide both feed_fn and x or y.")
    feeder = Feeder(x, y, batch_size, shuffle, epochs)
    return feeder.input_fn, [FeedFnHook(feeder.feed)]


def infer_real_valued_columns_from_input_fn(input_fn: Callable) -> list:
    """Return a column of numbers for each feature of an input function.

    Raises ``ValueError`` for features that are no numbers, or sparse.
    """
    from hpcflow.contrib.layers.column_layers import infer_real_valued_columns

    with Graph().as_default():
        return infer_real_valued_columns(input_fn()[0])


def infer_real_valued_columns_from_input(x: Any) -> list:
    """Return a column of numbers for each feature of arrays; errors as of an input function."""
    return infer_real_valued_columns_from_input_fn(Feeder(x).input_fn)
