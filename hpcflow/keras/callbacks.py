"""Callbacks: what is done at certain points of training."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.session import get_session, get_value, set_value

if TYPE_CHECKING:
    from hpcflow.keras.engine.loops import Training


class Callback:
    """Base of the callbacks; a class of one's own defines the methods that it needs.

    Attributes:
        model: the model that is trained.
        params: dict with ``epochs``, ``batch_size``, ``samples``, ``steps``, ``verbose`` and
            ``metrics``, the names of the numbers.
        validation_data: what is evaluated.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict = {}
        self.validation_data: Any = None

    def set_model(self, model: Any) -> None:
        """Called with the model, before training."""
        self.model = model

    def set_params(self, params: dict) -> None:
        """Called with the parameters, before training."""
        self.params = params

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Called after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called before an epoch."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called after an epoch, with its losses and metrics, and those of validation."""

    def on_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called before a batch."""

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Called after a batch, with its losses, and the metrics of the epoch so far."""

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """The same as :meth:`on_batch_begin`."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """The same as :meth:`on_batch_end`."""
        self.on_batch_end(batch, logs)


class CallbackList:
    """The callbacks of a training, called one after the other."""

    def __init__(self, callbacks: list) -> None:
        self.callbacks = callbacks

    @classmethod
    def of(cls, model: Any, told: Training, samples: int | None, validates: bool) -> CallbackList:
        """Return the callbacks given to ``fit``, and those that every training has."""
        history = model.history = History()
        shown = [Progress()] if told.verbose else []
        own = cls([*shown, *(told.callbacks or []), history])
        names = model.metrics_names
        size = told.batch_size or 32
        steps = told.steps_per_epoch or (samples and -(-samples // size))
        params = {"batch_size": size, "epochs": told.epochs, "steps": steps, "samples": samples,
                  "verbose": told.verbose, "do_validation": validates,
                  "metrics": names + [f"val_{n}" for n in names] if validates else list(names)}
        for callback in own.callbacks:
            callback.validation_data = told.validation_data
            callback.set_params(params)
            callback.set_model(model)
        return own

    def call(self, method: str, *args: Any) -> None:
        """Call a method of all callbacks."""
        method = {"on_batch_begin": "on_train_batch_begin",
                  "on_batch_end": "on_train_batch_end"}.get(method, method)
        for callback in self.callbacks:
            getattr(callback, method)(*args)


class History(Callback):
    """Keeps what each epoch gave: ``epoch``, and lists by name in ``history``."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch: list[int] = []
        self.history: dict[str, list] = {}

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keep the numbers."""
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)


class Progress(Callback):
    """Prints a bar, or a line for each epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Print the number of the epoch."""
        self._begun = time.monotonic()
        print(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Print how far the epoch is, where a terminal shows it."""
        if self.params["verbose"] == 1 and sys.stdout.isatty():
            self._write(batch + 1, logs or {}, "\r")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Print the numbers."""
        self._write(self.params["steps"], logs or {}, "\n")

    def _write(self, steps: Any, logs: dict, end: str) -> None:
        shown = " - ".join(f"{k}: {float(logs[k]):.4f}" for k in self.params["metrics"]
                           if k in logs and np.ndim(logs[k]) == 0)
        total = self.params["steps"] or "?"
        elapsed = time.monotonic() - self._begun
        print(f"{steps or '?'}/{total} - {elapsed:.0f}s - {shown}", end=end, flush=True)


ProgbarLogger = Progress


class BaseLogger(Callback):
    """A callback that does nothing, for programs that name it: epoch values are means already."""

    def __init__(self, stateful_metrics: Any = None) -> None:
        super().__init__()


class TerminateOnNaN(Callback):
    """Ends training when the loss is no number."""

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Look at the loss."""
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, on_epoch_begin: Callable | None = None,
                 on_epoch_end: Callable | None = None, on_batch_begin: Callable | None = None,
                 on_batch_end: Callable | None = None, on_train_begin: Callable | None = None,
                 on_train_end: Callable | None = None, **others: Callable) -> None:
        super().__init__()
        given = {k: v for k, v in locals().items() if k.startswith("on_") and v is not None}
        vars(self).update({**others, **given})


def _improves(mode: str, monitor: str) -> Callable:
    """Return the comparison by which a number is better, from `mode` or else the monitor's name."""
    up = mode == "max" or (mode != "min" and ("acc" in monitor or monitor.startswith("fmeasure")))
    return np.greater if up else np.less


class EarlyStopping(Callback):
    """Ends training when a number has not become better for `patience` epochs.

    Args:
        monitor: name of the number.
        min_delta: by how much it must become better.
        patience: epochs.
        verbose: whether to print when training ends.
        mode: ``min``, ``max`` or ``auto``, by the name.
        baseline: what it must be better than.
        restore_best_weights: whether the model gets the variables of the best epoch back.
    """

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0,
                 verbose: int = 0, mode: str = "auto", baseline: float | None = None,
                 restore_best_weights: bool = False) -> None:
        super().__init__()
        self.monitor, self.patience, self.verbose = monitor, patience, verbose
        self.baseline, self.restore_best_weights = baseline, restore_best_weights
        self.monitor_op = _improves(mode, monitor)
        self.min_delta = abs(min_delta) * (1 if self.monitor_op is np.greater else -1)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin anew."""
        self.wait = self.stopped_epoch = 0
        worst = np.inf if self.monitor_op is np.less else -np.inf
        self.best = worst if self.baseline is None else self.baseline
        self.best_weights: Any = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look at the number."""
        current = _monitored(self.monitor, logs, "Early stopping")
        if current is None:
            return
        if self.monitor_op(current - self.min_delta, self.best):
            self.best, self.wait = current, 0
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch, self.model.stop_training = epoch, True
            if self.best_weights is not None:
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Print when training ended early."""
        if self.stopped_epoch > 0 and self.verbose > 0:
            print(f"Epoch {self.stopped_epoch + 1:05d}: early stopping")


def _monitored(name: str, logs: Any, what: str) -> Any:
    found = (logs or {}).get(name)
    if found is None:
        hf.logging.warning(f"{what} conditioned on metric `{name}` which is not available. "
                           f"Available metrics are: {','.join(logs or {})}")
    return found


class ModelCheckpoint(Callback):
    """Saves the model, or its variables, after epochs.

    `filepath` may have fields for ``epoch`` and the numbers. With `save_best_only` only where the
    number `monitor` is better than in all epochs before. `period` (or `save_freq`) are the epochs
    from one file to the next.
    """

    def __init__(self, filepath: str, monitor: str = "val_loss", verbose: int = 0,
                 save_best_only: bool = False, save_weights_only: bool = False,
                 mode: str = "auto", save_freq: str = "epoch", period: int = 1,
                 **others: Any) -> None:
        super().__init__()
        self.filepath, self.monitor, self.verbose = filepath, monitor, verbose
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.period, self._since = period, 0
        self.monitor_op = _improves(mode, monitor)
        self.best = -np.inf if self.monitor_op is np.greater else np.inf

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save if it is time."""
        self._since += 1
        if self._since < self.period:
            return
        self._since = 0
        path = self.filepath.format(epoch=epoch + 1, **(logs or {}))
        if self.save_best_only:
            current = _monitored(self.monitor, logs, "Can save best model only, saving is")
            if current is None or not self.monitor_op(current, self.best):
                return
            self.best = current
        if self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: saving model to {path}")
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch: ``schedule(epoch)`` or ``schedule(epoch, lr)``."""

    def __init__(self, schedule: Callable, verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the rate."""
        rate = self.model.optimizer.lr
        try:
            value = self.schedule(epoch, float(get_value(rate)))
        except TypeError:
            value = self.schedule(epoch)
        if not isinstance(value, (float, np.floating)):
            raise ValueError("The output of the \"schedule\" function should be float.")
        set_value(rate, value)
        if self.verbose:
            print(f"\nEpoch {epoch + 1:05d}: LearningRateScheduler reducing learning rate to "
                  f"{value}.")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note the rate."""
        if logs is not None:
            logs["lr"] = get_value(self.model.optimizer.lr)


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` when a number has not become better for `patience`
    epochs; then waits for `cooldown` epochs, and never goes below `min_lr`."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10,
                 verbose: int = 0, mode: str = "auto", min_delta: float = 1e-4,
                 cooldown: int = 0, min_lr: float = 0, **others: Any) -> None:
        super().__init__()
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        self.monitor, self.factor, self.patience = monitor, factor, patience
        self.verbose, self.cooldown, self.min_lr = verbose, cooldown, min_lr
        improves, delta = _improves(mode, monitor), others.get("epsilon", min_delta)
        sign = 1 if improves is np.greater else -1
        self.monitor_op = lambda a, b: improves(a, b + sign * delta)
        self._worst = -np.inf * sign

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin anew."""
        self.best, self.wait, self.cooldown_counter = self._worst, 0, 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look at the number."""
        rate = self.model.optimizer.lr
        if logs is not None:
            logs["lr"] = get_value(rate)
        current = _monitored(self.monitor, logs, "Reduce LR on plateau")
        if current is None:
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.wait = self.cooldown_counter - 1, 0
        if self.monitor_op(current, self.best):
            self.best, self.wait = current, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            before = float(get_value(rate))
            if self.wait >= self.patience and before > self.min_lr:
                set_value(rate, max(before * self.factor, self.min_lr))
                self.cooldown_counter, self.wait = self.cooldown, 0


class CSVLogger(Callback):
    """Writes the numbers of epochs into a file of separated values."""

    def __init__(self, filename: str, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.separator, self.append = filename, separator, append

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the file."""
        mode = "a" if self.append else "w"
        self._file = open(self.filename, mode, newline="")  # noqa: SIM115 - closed at the end
        self._writer: Any = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write a line."""
        row = {"epoch": epoch, **{k: logs[k] for k in sorted(logs or {})}}  # type: ignore[index]
        if self._writer is None:
            self._writer = csv.DictWriter(self._file, list(row), delimiter=self.separator)
            if not self._file.tell():
                self._writer.writeheader()
        self._writer.writerow(row)
        self._file.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard(Callback):
    """Writes the numbers of epochs, and with `write_graph` the graph, as event files."""

    def __init__(self, log_dir: str = "logs", histogram_freq: int = 0, batch_size: int = 32,
                 write_graph: bool = True, write_grads: bool = False, write_images: bool = False,
                 update_freq: str = "epoch", **others: Any) -> None:
        super().__init__()
        self.log_dir, self.write_graph = log_dir, write_graph
        self.histogram_freq = histogram_freq

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the files."""
        graph = get_session().graph if self.write_graph else None
        self.writer = hf.summary.FileWriter(self.log_dir, graph)
        self._histograms = None
        if self.histogram_freq:
            self._histograms = hf.summary.merge([
                hf.summary.histogram(v.op.name, v) for v in self.model.weights])

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write the numbers."""
        values = [hf.Summary.Value(tag=k, simple_value=float(v)) for k, v in (logs or {}).items()
                  if np.ndim(v) == 0]
        self.writer.add_summary(hf.Summary(value=values), epoch)
        if self._histograms is not None and epoch % self.histogram_freq == 0:
            self.writer.add_summary(get_session().run(self._histograms), epoch)
        self.writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Close the files."""
        self.writer.close()


__getattr__ = named_otherwise(__name__)
