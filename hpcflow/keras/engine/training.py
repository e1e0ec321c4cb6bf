"""Model: a network that trains, evaluates and predicts over arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.errors import UnimplementedError
from hpcflow.keras import losses as losses_module
from hpcflow.keras import metrics as metrics_module
from hpcflow.keras import optimizers
from hpcflow.keras.engine import loops, saving, sources
from hpcflow.keras.engine.network import Network
from hpcflow.keras.engine.outputs import (
    Target,
    as_loss,
    by_output,
    check_labels,
    loss_of,
    metrics_by_output,
    with_rank,
)
from hpcflow.keras.session import get_session, phase_feed
from hpcflow.keras.settings import floatx

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.optimizers.optimizer import Optimizer


class Model(Network):
    """A network with a loss and an optimizer: :meth:`compile`, then :meth:`fit`.

    Made of ``inputs`` and ``outputs``; or derived, with layers as attributes and a ``call``.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.optimizer: Any = None
        self.loss: Any = None
        self.stop_training = False
        self.history: Any = None
        self._targets: list[Target] = []
        self._train_step: Any = None
        self._added: list = []  # the metrics that layers add
        self._trained: Callable[[], list] = list
        self._updated: Callable[[], list] = list
        self._results: list | None = None  # the values of metrics
        self._state_steps: list | None = None  # state_updates, found once
        self._asked: dict[str, Any] | None = None
        self._sample_weights: Any = None  # tensors for examples that are not fed

    # ------------------------------------------------------------ what is trained

    def compile(self, optimizer: Optimizer | str | Mapping[str, Any] = "rmsprop", loss: Any = None,
                metrics: Any = None, loss_weights: Any = None, sample_weight_mode: Any = None,
                weighted_metrics: Any = None, target_tensors: Any = None, **options: Any) -> None:
        """Say what the model is trained for.

        Args:
            optimizer: a name, one of ``keras.optimizers`` or one of ``train``.
            loss: a function of labels and predictions, or its name; for several outputs a list, or
                a dict by their names.
            metrics: names, functions or metric objects; for several outputs a dict, or a list of
                lists.
            loss_weights: numbers that the losses of outputs are multiplied by, a list or dict.
            sample_weight_mode: accepted; weights may have a dimension for time steps.
            weighted_metrics: metrics that take the weights of examples into account.
            target_tensors: tensors that take the places of labels.

        Raises ``ValueError`` for unknown names.
        """
        self.optimizer, self.loss = optimizers.get(optimizer), loss
        self._asked = {"loss": loss, "metrics": metrics, "loss_weights": loss_weights,
                       "weighted_metrics": weighted_metrics, "targets": target_tensors,
                       "modes": sample_weight_mode}
        self._targets, self._train_step, self._results = [], None, None
        self._state_steps = None
        if self.outputs is not None:
            self._make_targets()

    def _make_targets(self) -> None:
        asked = self._asked or {}
        trained = list(self.trainable_weights)  # also if `trainable` is changed later on
        updates = [*self.get_updates_for(None), *self.get_updates_for(self.inputs)]
        self._trained = lambda: trained  # a list would count among the model's weights
        self._updated = lambda: updates
        names, outputs = self.output_names, self.outputs or []
        functions = by_output(asked["loss"], names, "loss")
        by_output(asked["modes"], names, "sample_weight_mode")
        regularizing = [*self.get_losses_for(None), *self.get_losses_for(self.inputs)]
        if all(f is None for f in functions) and not regularizing:
            raise ValueError("The model cannot be compiled because it has no loss to optimize.")
        for name in names if isinstance(asked["loss"], dict) else ():
            if name not in asked["loss"]:
                hf.logging.warning(
                    f"Output {name} missing from loss dictionary. We assume this was done on "
                    "purpose. The fit and evaluate APIs will not be expecting any data to be "
                    f"passed to {name}.")
        targets = asked["targets"]
        given = by_output(targets, names, "target_tensors")
        plain = metrics_by_output(asked["metrics"], names)
        weighted = metrics_by_output(asked["weighted_metrics"], names)
        self.loss_functions = [as_loss(f) for f in functions]
        self._targets = [
            self._target(*parts) for parts in zip(names, outputs, self.loss_functions, given,
                                                  plain, weighted, strict=True)]
        self._loss_weights_list = [1.0 if f is None else float(f)
                                   for f in by_output(asked["loss_weights"], names, "loss_weights")]
        self._added = []
        for name, value in self.added_metrics:
            metric = getattr(value, "_metric_obj", None)
            step = value.op  # runs the update
            if metric is None:
                metric = metrics_module.Mean(name)
                step = metric.update_state(value)
            self._added.append((name, metric, step))
        terms = [f * t.loss for f, t in zip(self._loss_weights_list, self._targets, strict=True)
                 if t.loss is not None]
        terms += [hf.reduce_sum(v) for v in regularizing]
        self.total_loss = hf.add_n(terms) if len(terms) > 1 else terms[0]

    def _target(self, name: str, output: Tensor, function: Any, given: Any, plain: list,
                weighted: list) -> Target:
        labels = given
        if labels is None:
            dtype = output.dtype.base_dtype
            rank = output.shape.ndims
            labels = hf.placeholder(dtype, rank and [None] * rank, name=f"{name}_target")
        kept = self._sample_weights
        own = kept[name] if isinstance(kept, dict) else kept
        weights = hf.placeholder_with_default(
            np.ones([1], np.float32) if own is None else own, None, name=f"{name}_sample_weights")
        loss = None
        mask = getattr(output, "_keras_mask", None)
        if function is not None:
            with hf.name_scope(f"loss/{name}_loss"):
                loss = loss_of(function, labels, output, weights, mask)
        several = len(self.output_names) > 1
        metrics = []
        asked_for = [(m, False) for m in plain] + [(m, True) for m in weighted]
        for asked, use_weights in asked_for if function is not None else ():
            metric = metrics_module.chosen(asked, function, output)
            if use_weights and metric is not asked:
                metric.name = f"weighted_{metric.name}"
            shown = f"{name}_{metric.name}" if several else metric.name
            told = weights if use_weights else None
            if mask is not None:
                own = hf.cast(mask, hf.float32)
                told = own if told is None else own * losses_module.fitted(told, own)
            update = (metric.update_state(labels, output) if told is None
                      else metric.update_state(labels, output, sample_weight=told))
            metrics.append((shown, metric, update))
        sizes = None if output.shape.ndims is None else output.shape.as_list()
        return Target(name, labels, weights, loss, metrics, sizes)

    @property
    def metrics_names(self) -> list[str]:
        """The names of the numbers that :meth:`evaluate` returns."""
        losses = [f"{t.name}_loss" for t in self._targets if t.loss is not None]
        return ["loss", *(losses if len(self._targets) > 1 else []),
                *(name for name, _, _ in self._measured())]

    @property
    def metrics(self) -> list:
        """The metric objects."""
        return [metric for _, metric, _ in self._measured()]

    def _measured(self) -> list:
        """The metrics of the outputs and those that layers add: (name, metric, update)."""
        return [m for t in self._targets for m in t.metrics] + self._added

    def _train(self) -> Any:
        """The operation of a training step."""
        if self._train_step is None:
            if hf.get_default_graph()._replicas is not None:
                raise UnimplementedError(None, None, (
                    "Keras models train one replica, and this strategy has one on each rank: "
                    "train an Estimator, or compile the model outside of the strategy with "
                    "hf.mpi.DistributedOptimizer"))
            with hf.name_scope("training"):
                if isinstance(self.optimizer, hf.train.Optimizer) and not self._trained():
                    step = hf.assign_add(hf.train.get_or_create_global_step(), 1).op
                elif isinstance(self.optimizer, hf.train.Optimizer):
                    step = self.optimizer.minimize(
                        self.total_loss, hf.train.get_or_create_global_step(), self._trained())
                else:
                    step = hf.group(*self.optimizer.get_updates(self.total_loss, self._trained()))
            self._train_step = hf.group(step, *self._updated())
        return self._train_step

    # ------------------------------------------------------------ steps

    def _prepare(self, x: TensorLike, y: TensorLike | None = None) -> list:
        """The arrays of the inputs; a model without known inputs gets those of `x`."""
        arrays = sources.arrays_of(x, self.input_names if self.inputs is not None else None)
        if self.inputs is None:
            self._take_inputs(arrays, x)
        if self._asked is not None and not self._targets:
            self._make_targets()
        return [with_rank(a, t) for a, t in zip(arrays, self.inputs or [], strict=True)]

    def _take_inputs(self, arrays: list, x: TensorLike) -> None:
        """Begin with inputs like `arrays`; vectors are columns, as in 1.x."""
        from hpcflow.keras.engine.inputs import Input

        arrays = [a[:, None] if a.ndim == 1 else a for a in arrays]
        dtypes = [hf.as_dtype(floatx() if a.dtype.kind == "f" else a.dtype) for a in arrays]
        made = [Input(a.shape[1:], dtype=d, name=f"input_{n + 1}")
                for n, (a, d) in enumerate(zip(arrays, dtypes))]
        self.inputs = made
        nest = (made[0] if not isinstance(x, (list, tuple, dict)) else
                dict(zip(x, made)) if isinstance(x, dict) else type(x)(made))
        if hasattr(self, "_stack"):
            self.inputs = None
            self.build((None, *arrays[0].shape[1:]))
            return
        outputs = self(nest)
        self.outputs = hf.nest.flatten(outputs)
        self.input_names = [t._keras_history.layer.name for t in made]
        self.output_names = [f"output_{n + 1}" for n in range(len(self.outputs))]

    def _feeds(self, xs: list, ys: list, weights: list) -> dict:
        feeds: dict = dict(zip(self.inputs or [], xs))
        for target, labels, own in zip(self._targets, ys, weights):
            if labels is not None and target.loss is not None:
                feeds[target.labels] = with_rank(labels, target.labels)
            if own is not None:
                feeds[target.weights] = own
        return feeds

    def _step(self, xs: list, ys: list, weights: list, train: bool) -> list:
        """Run a batch: the losses of the batch, then the metrics since they were reset."""
        self._need_compiled()
        updates = [update for _, _, update in self._measured()]
        losses = [self.total_loss, *([t.loss for t in self._targets if t.loss is not None]
                                     if len(self._targets) > 1 else [])]
        steps = [*updates, *([self._train()] if train else self._states())]
        feeds = self._feeds(xs, ys, weights)
        session = get_session()
        found = session.run([losses, steps], {**feeds, **phase_feed(train)})[0]
        self._make_test_function()
        gathered = session.run(self._results) if self._results else []
        return [*(float(v) for v in found), *(np.asarray(v)[()] for v in gathered)]

    # Programs call these before they finalize the graph, or share the model among threads.

    def _make_train_function(self) -> None:
        """Build what a training step needs."""
        self._make_test_function()
        self._train()

    def _make_test_function(self) -> None:
        """Build what the metrics need."""
        self._need_compiled()
        if self._results is None:
            self._results = [m.result() for m in self.metrics]

    def _make_predict_function(self) -> None:
        """Let the session have the variables; predictions need nothing else."""
        get_session()

    def _states(self) -> list:
        """The steps of :attr:`state_updates`, looked for once."""
        if self._state_steps is None:
            self._state_steps = self.state_updates
        return self._state_steps

    def _connect(self, inputs: Any, outputs: Any) -> None:
        super()._connect(inputs, outputs)
        self._state_steps = None

    def _need_compiled(self) -> None:
        if self._asked is None:
            raise RuntimeError("You must compile your model before training/testing. Use "
                               "`model.compile(optimizer, loss)`.")

    def reset_metrics(self) -> None:
        """Let the metrics begin anew."""
        variables = [v for m in self.metrics for v in m.weights]
        if variables:
            get_session().run([v.initializer for v in variables])

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None,
                       class_weight: Any = None, reset_metrics: bool = True) -> Any:
        """Make one step with a batch. Returns the loss, or a list with the metrics after it."""
        return self._on_batch(x, y, sample_weight, class_weight, reset_metrics, True)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None,
                      reset_metrics: bool = True) -> Any:
        """Return the loss of a batch, or a list with the metrics after it."""
        return self._on_batch(x, y, sample_weight, None, reset_metrics, False)

    def _on_batch(self, x: TensorLike, y: TensorLike, sample_weight: TensorLike, class_weight: Any,
                  reset: bool, train: bool) -> Any:
        self._need_compiled()
        if any(map(sources.is_symbolic, (x, y, sample_weight))):
            x, y, sample_weight = sources.Tensors(x, y, sample_weight).batch()
        xs = self._prepare(x, y)
        ys, weights = self._labels(y, sample_weight, class_weight)
        loops.check_lengths(xs, ys, weights)
        if reset:
            self.reset_metrics()
        found = self._step(xs, ys, weights, train)
        return found if len(found) > 1 else found[0]

    def predict_on_batch(self, x: TensorLike) -> Any:
        """Return the predictions for a batch."""
        if sources.is_symbolic(x):
            return self.predict(x, steps=1)
        return self.predict(x, batch_size=len(sources.arrays_of(x, None)[0]))

    def _batch_size(self, x: Any, batch_size: int | None) -> int | None:
        """The size of batches of arrays: as given, or that of the model's inputs.

        ``ValueError`` for another than theirs.
        """
        known = next((t.shape[0].value for t in self.inputs or () if t.shape.ndims), None)
        if known is None or sources.is_source(x):
            return batch_size
        if batch_size not in (None, known):
            raise ValueError(f"The `batch_size` argument value {batch_size} is incompatible with "
                             f"the specified batch size of your Input Layer: {known}")
        return known

    def _labels(self, y: TensorLike | None, sample_weight: TensorLike | None,
                class_weight: Any) -> tuple[list, list]:
        names = self.output_names
        trained = [t.name for t in self._targets if t.loss is not None]
        ys = sources.arrays_of(y, names) if y is not None else [None] * len(names)
        if len(ys) != len(names) and len(ys) == len(trained):  # none of those without a loss
            of = dict(zip(trained, ys, strict=True))
            ys = [of.get(n) for n in names]
        if len(ys) != len(names):
            raise ValueError(f"Model {self.name} has {len(names)} outputs, got {len(ys)} arrays of "
                             "labels")
        for labels, target, function in zip(ys, self._targets, self.loss_functions, strict=True):
            check_labels(labels, target, function)
        if isinstance(sample_weight, dict):
            sample_weight = by_output(sample_weight, names, "sample_weight")
        weights: list = ([None] * len(names) if sample_weight is None
                         else sources.arrays_of(sample_weight, names))
        if class_weight is not None:
            per = by_output(class_weight, names, "class_weight") if any(
                n in class_weight for n in names) else [class_weight] * len(names)
            weights = [sources.weights_of_classes(a, w, c)
                       for a, w, c in zip(ys, weights, per, strict=True)]
        return ys, weights

    # ------------------------------------------------------------ over arrays

    def fit(
            self, x: Any = None, y: TensorLike | None = None, batch_size: int | None = None,
            epochs: int = 1, verbose: int = 1, callbacks: Sequence[Any] | None = None,
            validation_split: float = 0.0, validation_data: Any = None, shuffle: Any = True,
            class_weight: Any = None, sample_weight: TensorLike | None = None,
            initial_epoch: int = 0, steps_per_epoch: int | None = None,
            validation_steps: int | None = None, validation_freq: Any = 1, **options: Any) -> Any:
        """Train for a number of epochs, and return their ``History``.

        Args:
            x: arrays; a data set, an iterator of one, a generator of batches or a ``Sequence``.
            y: labels, where `x` has none.
            batch_size: examples of a step, 32 if None.
            epochs: the number of the last epoch.
            verbose: 0: nothing is printed, 1: a bar, 2: a line for each epoch.
            callbacks: see ``keras.callbacks``.
            validation_split: the last part of the data that is evaluated, not trained on.
            validation_data: what is evaluated after each epoch, ``(x, y)`` or ``(x, y, weights)``.
            shuffle: whether the order of examples is random in each epoch.
            class_weight: dict of the weights of classes.
            sample_weight: weights of the examples.
            initial_epoch: number of epochs before this call.
            steps_per_epoch: batches of an epoch; needed for data without an end.
            validation_steps: batches that are evaluated.
            validation_freq: epochs from one evaluation to the next, or a list of epochs.

        Raises ``ValueError`` for arrays that do not belong together, ``RuntimeError`` before
        :meth:`compile`.
        """
        self._need_compiled()
        if validation_steps and validation_data is None and not validation_split:
            raise ValueError("`validation_steps` should not be specified if `validation_data` is "
                             "None.")
        batch_size = self._batch_size(x, batch_size)
        sources.check_source(x, y, sample_weight, batch_size, validation_split)
        data = sources.of_tensors(x, y, sample_weight, steps_per_epoch, "steps_per_epoch")
        return loops.fit(self, loops.Training(
            *data[:2], batch_size, epochs, verbose, callbacks, validation_split, validation_data,
            shuffle, class_weight, data[2], initial_epoch, steps_per_epoch,
            validation_steps, validation_freq))

    def evaluate(self, x: Any = None, y: TensorLike | None = None, batch_size: int | None = None,
                 verbose: int = 1, sample_weight: TensorLike | None = None,
                 steps: int | None = None, callbacks: Any = None, **options: Any) -> Any:
        """Return the loss, or a list of the numbers that :attr:`metrics_names` names."""
        self._need_compiled()
        batch_size = self._batch_size(x, batch_size)
        sources.check_source(x, y, sample_weight, batch_size)
        data = sources.of_tensors(x, y, sample_weight, steps, "steps")
        found = loops.evaluate(self, loops.Batches(*data, batch_size, steps), callbacks, verbose)
        return found if len(found) > 1 else found[0]

    def predict(self, x: Any, batch_size: int | None = None, verbose: int = 0,
                steps: int | None = None, callbacks: Any = None, **options: Any) -> Any:
        """Return the predictions, an array or a list of those of the outputs."""
        batch_size = self._batch_size(x, batch_size)
        sources.check_source(x, None, None, batch_size)
        data = sources.of_tensors(x, None, None, steps, "steps")
        return loops.predict(self, loops.Batches(*data, batch_size, steps), callbacks, verbose)

    def _predict(self, xs: list) -> list:
        feeds = {**dict(zip(self.inputs or [], xs)), **phase_feed(False)}
        return get_session().run([self.outputs, self._states()], feeds)[0]

    def fit_generator(self, generator: Iterable, steps_per_epoch: int | None = None,
                      epochs: int = 1, verbose: int = 1, callbacks: Any = None,
                      validation_data: Any = None, validation_steps: int | None = None,
                      validation_freq: Any = 1, class_weight: Any = None,
                      max_queue_size: int = 10, workers: int = 1,
                      use_multiprocessing: bool = False, shuffle: bool = True,
                      initial_epoch: int = 0) -> Any:
        """As :meth:`fit`, with batches of a generator or a ``Sequence``."""
        return self.fit(generator, None, None, epochs, verbose, callbacks, 0.0, validation_data,
                        shuffle, class_weight, None, initial_epoch, steps_per_epoch,
                        validation_steps, validation_freq)

    def evaluate_generator(self, generator: Iterable, steps: int | None = None,
                           callbacks: Any = None, max_queue_size: int = 10, workers: int = 1,
                           use_multiprocessing: bool = False, verbose: int = 0) -> Any:
        """As :meth:`evaluate`, with batches of a generator."""
        return self.evaluate(generator, steps=steps, verbose=verbose, callbacks=callbacks)

    def predict_generator(self, generator: Iterable, steps: int | None = None,
                          callbacks: Any = None, max_queue_size: int = 10, workers: int = 1,
                          use_multiprocessing: bool = False, verbose: int = 0) -> Any:
        """As :meth:`predict`, with batches of a generator."""
        return self.predict(generator, steps=steps, verbose=verbose, callbacks=callbacks)

    # ------------------------------------------------------------ files

    def save_weights(self, filepath: str, overwrite: bool = True,
                     save_format: str | None = None) -> None:
        """Write the variables, by layers: an HDF5 file for names that end with ``.h5``,
        ``.hdf5`` or ``.keras``, else a checkpoint.

        ``OSError`` if the file exists and is not to be overwritten.
        """
        saving.save_weights(self, filepath, overwrite, save_format)

    def load_weights(self, filepath: str, by_name: bool = False) -> Any:
        """Set the variables to those of a file; with `by_name` only layers with names in it.

        Returns the status of a checkpoint. Raises ``ValueError`` where layers or shapes differ.
        """
        return saving.load_weights(self, filepath, by_name)

    def get_config(self) -> dict:
        """Return the layers and how they are connected."""
        return saving.config_of(self)

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Any:
        """Return a model of a configuration."""
        return saving.model_of(cls, config, custom_objects)

    def to_json(self, **options: Any) -> str:
        """Return the class and the configuration as JSON."""
        return saving.to_json(self, **options)

    def save(self, filepath: str, overwrite: bool = True, include_optimizer: bool = True,
             **options: Any) -> None:
        """Write configuration, variables and, if compiled, what it is trained for, as HDF5."""
        saving.save_model(self, filepath, overwrite, include_optimizer)
