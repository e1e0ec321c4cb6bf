"""Estimator: see :class:`Estimator`."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.estimator import evaluation, exporting, prediction, training
from hpcflow.estimator.features import features_and_labels
from hpcflow.estimator.run_config import RunConfig
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.optimizers.global_step import get_or_create_global_step
from hpcflow.platform import logging
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.warm_starting import WarmStartSettings

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.distribute import Strategy
    from hpcflow.graph.likes import Nest, TensorLike

_MODEL_ARGUMENTS = {"features", "labels", "mode", "params", "config"}


class Estimator:
    """Trains, evaluates, uses and exports a model that a function describes.

    Each call builds a graph of its own; what is learned is in the checkpoints of ``model_dir``.

    Args:
        model_fn: ``model_fn(features, labels, mode, params, config)`` returns an
            :class:`EstimatorSpec`; only ``features`` is needed.
        model_dir: where checkpoints and summaries go; by default that of `config`, or a temporary
            directory.
        config: a :class:`RunConfig`.
        params: given to `model_fn` and to input functions.
        warm_start_from: a checkpoint, its directory, or ``WarmStartSettings``: what the variables
            begin with where ``model_dir`` has no checkpoint.

    Raises ``ValueError`` for other arguments of `model_fn`, or two different directories.
    """

    def __init__(self, model_fn: Callable, model_dir: str | None = None,
                 config: RunConfig | None = None, params: Any = None,
                 warm_start_from: str | WarmStartSettings | None = None) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise ValueError(f"config must be an instance of RunConfig, but provided {config}.")
        self._arguments = _checked_arguments(model_fn, params)
        self._model_fn = model_fn
        self._config = _with_directory(config or RunConfig(), model_dir)
        self._params = params.copy() if hasattr(params, "copy") else params or {}
        self._warm_start = _warm_start_settings(warm_start_from)
        logging.info("Using config: %s", vars(self._config))

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and summaries."""
        assert self._config.model_dir is not None
        return self._config.model_dir

    @property
    def config(self) -> RunConfig:
        """The run configuration of the estimator."""
        return self._config

    @property
    def params(self) -> Any:
        """A copy of what `model_fn` is given."""
        return self._params.copy() if hasattr(self._params, "copy") else self._params

    @property
    def model_fn(self) -> Callable:
        """``model_fn(features, labels, mode, config)``, with the params bound."""

        def public(features: Nest, labels: TensorLike, mode: str, config: Message) -> EstimatorSpec:
            return self.build(features, labels, mode, config)

        return public

    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint, or None."""
        return latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """The names in the latest checkpoint; ``ValueError`` without one."""
        return sorted(self._reader().get_variable_to_shape_map())

    def get_variable_value(self, name: str) -> np.ndarray:
        """The value of a variable in the latest checkpoint; ``ValueError`` without one."""
        return self._reader().get_tensor(name.removesuffix(":0"))

    def train(self, input_fn: Callable, hooks: Sequence | None = None, steps: int | None = None,
              max_steps: int | None = None,
              saving_listeners: Sequence | None = None) -> Estimator:
        """Train, from the latest checkpoint on; returns the estimator.

        Args:
            input_fn: returns a ``Dataset`` of (features, labels), or their tensors.
            hooks: ``SessionRunHook``s.
            steps: how many steps to go on for; by default until the data end.
            max_steps: number of the last step, whatever was trained before.
            saving_listeners: ``CheckpointSaverListener``s.

        Raises ``ValueError`` for both numbers of steps or one that is not positive, and what the
        functions and steps raise (``NanLossDuringTrainingError`` for a loss that is no number).
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, number in (("steps", steps), ("max_steps", max_steps)):
            if number is not None and number <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {number}")
        if max_steps is not None and self._trained_steps() >= max_steps:
            logging.info("Skipping training since max_steps has already saved.")
            return self
        loss = training.train(self, input_fn, list(hooks or ()), steps, max_steps,
                              list(saving_listeners or ()))
        logging.info("Loss for final step: %s.", loss)
        return self

    def evaluate(self, input_fn: Callable, steps: int | None = None,
                 hooks: Sequence | None = None, checkpoint_path: str | None = None,
                 name: str | None = None) -> dict[str, Any]:
        """Return the metrics of the model over the data, with ``loss`` and ``global_step``.

        They are written as summaries to ``eval_dir(name)`` too.

        Args:
            input_fn: as of :meth:`train`.
            steps: batches at most.
            hooks: ``SessionRunHook``s.
            checkpoint_path: what to evaluate; by default the latest one. Without any the variables
                are initialized.
            name: of this evaluation, if there are several.

        Raises ``ValueError`` if `steps` is not positive.
        """
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        return evaluation.evaluate(self, input_fn, steps, list(hooks or ()),
                                   self._checkpoint(checkpoint_path, "evaluate"), name)

    def predict(self, input_fn: Callable, predict_keys: Any = None,
                hooks: Sequence | None = None, checkpoint_path: str | None = None,
                yield_single_examples: bool = True) -> Iterator:
        """Yield the predictions, example by example.

        Args:
            input_fn: returns features, or a ``Dataset`` of them; labels are dropped.
            predict_keys: which of the predictions to yield; by default all.
            hooks: ``SessionRunHook``s.
            checkpoint_path: as of :meth:`evaluate`.
            yield_single_examples: False yields batches as they are.

        Raises ``ValueError`` for keys that the model does not predict, or predictions whose batches
        differ in length.
        """
        return prediction.predict(self, input_fn, predict_keys, list(hooks or ()),
                                  self._checkpoint(checkpoint_path, "predict"),
                                  yield_single_examples)

    def export_saved_model(self, export_dir_base: str, serving_input_receiver_fn: Callable,
                           assets_extra: dict[str, str] | None = None, as_text: bool = False,
                           checkpoint_path: str | None = None,
                           experimental_mode: str = ModeKeys.PREDICT) -> bytes:
        """Write a SavedModel into a new directory of `export_dir_base`, named after the time.

        Args:
            export_dir_base: where that directory is made.
            serving_input_receiver_fn: returns what is fed; see ``hf.estimator.export``.
            assets_extra: path below ``assets.extra`` -> file to copy there.
            as_text: write the graph as text.
            checkpoint_path: what to export; by default the latest one.
            experimental_mode: of the model.

        Returns the path, as bytes. Raises ``ValueError`` without a checkpoint, or if no signature
        can have these inputs.
        """
        return exporting.export(
            self, export_dir_base, {experimental_mode: serving_input_receiver_fn}, assets_extra,
            as_text, checkpoint_path or self.latest_checkpoint(), False)

    def export_savedmodel(self, export_dir_base: str, serving_input_receiver_fn: Callable,
                          assets_extra: dict[str, str] | None = None, as_text: bool = False,
                          checkpoint_path: str | None = None,
                          strip_default_attrs: bool = False) -> bytes:
        """As :meth:`export_saved_model`."""
        return exporting.export(
            self, export_dir_base, {ModeKeys.PREDICT: serving_input_receiver_fn}, assets_extra,
            as_text, checkpoint_path or self.latest_checkpoint(), strip_default_attrs)

    def eval_dir(self, name: str | None = None) -> str:
        """Return the directory of the summaries of evaluations with this name."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    # ------------------------------------------------- used by the modules of the modes

    @property
    def warm_start_settings(self) -> WarmStartSettings | None:
        """The warm start's settings: which variables begin with a checkpoint's values; or None."""
        return self._warm_start

    @property
    def writes(self) -> bool:
        """Whether this rank writes summaries and exports: among several replicas the first one."""
        strategy = self._config.train_distribute or self._config.eval_distribute
        return strategy is None or strategy.extended.should_save_summary

    def build_with(self, input_fn: Callable, mode: str) -> tuple[EstimatorSpec, list]:
        """Build input and model in the default graph: (spec, hooks that the input needs)."""
        strategy = self._strategy(mode)
        with strategy.scope() if strategy else contextlib.nullcontext():
            get_or_create_global_step()
            features, labels, hooks = features_and_labels(
                input_fn, mode, self._params_of(mode), self._config, strategy)
            arguments = features, labels, mode, self._config
            if strategy is None:
                return self.build(*arguments), hooks
            with strategy._scale_loss_for_estimator_enabled():
                return strategy.extended.call_for_each_replica(self.build, arguments), hooks

    def _strategy(self, mode: str) -> Strategy | None:
        """The strategy of a mode."""
        return {ModeKeys.TRAIN: self._config.train_distribute,
                ModeKeys.EVAL: self._config.eval_distribute}.get(mode)

    def build(self, features: Nest, labels: TensorLike | None, mode: str,
              config: RunConfig) -> EstimatorSpec:
        """Call the model function with the arguments that it has."""
        names = self._arguments
        given = {"mode": mode, "config": config, "params": self._params_of(mode)}
        arguments = {name: value for name, value in given.items() if name in names}
        if "labels" in names:
            arguments["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        logging.info("Calling model_fn.")
        spec = self._model_fn(features=features, **arguments)
        logging.info("Done calling model_fn.")
        spec = getattr(spec, "as_estimator_spec", lambda: spec)()
        if not isinstance(spec, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return spec

    def _params_of(self, mode: str) -> Any:
        """Return the params for the functions of a mode."""
        return self.params

    def run_as(self, config: RunConfig) -> None:
        """Replace the run configuration by another one of the same task."""
        self._config = config

    def _reader(self) -> Any:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}.")
        return NewCheckpointReader(path)

    def _trained_steps(self) -> int:
        path = self.latest_checkpoint()
        if path is None:
            return 0
        reader = NewCheckpointReader(path)
        return int(reader.get_tensor("global_step")) if reader.has_tensor("global_step") else 0

    def _checkpoint(self, given: str | None, purpose: str) -> str | None:
        path = given or self.latest_checkpoint()
        if path is None:
            logging.info("Could not find trained model in model_dir: %s, running initialization "
                         "to %s.", self.model_dir, purpose)
        return path


def _checked_arguments(model_fn: Callable, params: Mapping[str, Any] | None) -> set[str]:
    """The names of the arguments of `model_fn`."""
    parameters = inspect.signature(model_fn).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return set(_MODEL_ARGUMENTS)
    names = {p.name for p in parameters}
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(f"model_fn ({model_fn}) does not include params argument, but params "
                         f"({params}) is passed to Estimator.")
    others = sorted(p.name for p in parameters
                    if p.name not in _MODEL_ARGUMENTS | {"self"} and p.default is p.empty
                    and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
    if others:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {others}")
    return names


def _with_directory(config: RunConfig, model_dir: Any) -> RunConfig:
    model_dir = os.fsdecode(model_dir) if model_dir else None
    if model_dir is None:
        if config.model_dir:
            return config
        if config.train_distribute and config.train_distribute.num_replicas_in_sync > 1:
            raise ValueError("The ranks that have a replica each need one `model_dir`, which all "
                             "of them see.")
        model_dir = tempfile.mkdtemp()
        logging.warning("Using temporary folder as model directory: %s", model_dir)
    elif config.model_dir not in (None, model_dir):
        raise ValueError("`model_dir` are set both in constructor and `RunConfig`, but with "
                         f"different values. In constructor: '{model_dir}', in `RunConfig`: "
                         f"'{config.model_dir}' ")
    return config.replace(model_dir=model_dir)


def _warm_start_settings(given: str | WarmStartSettings | None) -> WarmStartSettings | None:
    if given is None or isinstance(given, WarmStartSettings):
        return given
    if isinstance(given, (str, os.PathLike)):
        return WarmStartSettings(ckpt_to_initialize_from=os.fsdecode(given))
    raise ValueError("warm_start_from must be a string or a WarmStartSettings, instead got "
                     f"{type(given)}")
