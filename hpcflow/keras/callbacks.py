"""Callbacks: what is done at certain points of training."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.keras.callback_list import (  # noqa: F401
    BaseLogger,
    Callback,
    CallbackList,
    History,
    ProgbarLogger,
)
from hpcflow.keras.session import get_session, get_value, set_value


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
                if self.verbose > 0:
                    print("Restoring model weights from the end of the best epoch.")
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
    """Saves the model, or its variables, after epochs or examples.

    Args:
        filepath: path, which may have fields for ``epoch`` and the numbers.
        monitor, mode: the number by which one is the best, and which way it is better: ``min``,
            ``max``, or by its name.
        verbose: whether to print what is saved.
        save_best_only: whether to save only where that number is better than ever before.
        save_weights_only: whether to save the variables alone.
        save_freq: ``epoch``, or the number of examples from one file to the next.
        period: epochs from one file to the next.
        load_weights_on_restart: whether training begins with the variables of the file, if there
            is one.

    Raises ``ValueError`` for another `save_freq`, ``TypeError`` for other arguments.
    """

    def __init__(self, filepath: str, monitor: str = "val_loss", verbose: int = 0,
                 save_best_only: bool = False, save_weights_only: bool = False,
                 mode: str = "auto", save_freq: Any = "epoch", period: int = 1,
                 load_weights_on_restart: bool = False) -> None:
        super().__init__()
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError(f"Unrecognized save_freq: {save_freq}")
        self.filepath, self.monitor, self.verbose = filepath, monitor, verbose
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.save_freq, self.period = save_freq, period
        self.load_weights_on_restart = load_weights_on_restart
        self.epochs_since_last_save = self._samples = self._epoch = 0
        self.monitor_op = _improves(mode, monitor)
        self.best = -np.inf if self.monitor_op is np.greater else np.inf

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Load the file, if that was asked for and there is one."""
        if self.load_weights_on_restart:
            found = self._get_most_recently_modified_file_matching_pattern(self.filepath)
            if found is not None:
                self.model.load_weights(found)

    @staticmethod
    def _get_most_recently_modified_file_matching_pattern(pattern: str) -> str | None:
        """The path of the newest file or checkpoint whose fields are of any value, or None."""
        folder, name = os.path.split(pattern)
        form = re.compile(f"^{re.sub('{.*}', '.*', name)}$")
        latest = hf.train.latest_checkpoint(folder)
        if latest is not None and form.match(os.path.basename(latest)):
            return latest
        names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        found = [os.path.join(folder, n) for n in names if form.match(n)]
        return max(found, key=lambda p: (os.path.getmtime(p), p), default=None)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note the epoch."""
        self._epoch = epoch

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Save if there were enough examples."""
        if self.save_freq == "epoch":
            return
        self._samples += (logs or {}).get("size", 1)
        if self._samples >= self.save_freq:
            self._samples = 0
            self._save(self._epoch, logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Save if it is time."""
        self.epochs_since_last_save += 1
        if self.save_freq == "epoch" and self.epochs_since_last_save >= self.period:
            self.epochs_since_last_save = 0
            self._save(epoch, logs)

    def _save(self, epoch: int, logs: dict[str, Any] | None) -> None:
        path = self.filepath.format(epoch=epoch + 1, **(logs or {}))
        said = f"\nEpoch {epoch + 1:05d}: "
        if self.save_best_only:
            current = _monitored(self.monitor, logs, "Can save best model only, saving is")
            if current is None:
                return
            if not self.monitor_op(current, self.best):
                if self.verbose:
                    print(f"{said}{self.monitor} did not improve from {self.best:0.5f}")
                return
            said += f"{self.monitor} improved from {self.best:0.5f} to {current:0.5f}, "
            self.best = current
        if self.verbose:
            print(f"{said}saving model to {path}")
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
        rate = _rate_of(self.model)
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


def _rate_of(model: Any) -> Any:
    """The variable of the learning rate. ``ValueError`` for an optimizer without one."""
    if not hasattr(model.optimizer, "lr"):
        raise ValueError('Optimizer must have a "lr" attribute.')
    return model.optimizer.lr


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
        if "epsilon" in others:
            hf.logging.warning("`epsilon` argument is deprecated and will be removed, use "
                               "`min_delta` instead.")
        improves, delta = _improves(mode, monitor), others.get("epsilon", min_delta)
        sign = 1 if improves is np.greater else -1
        self.monitor_op = lambda a, b: improves(a, b + sign * delta)
        self._worst = -np.inf * sign
        self.on_train_begin()

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
                after = max(before * self.factor, self.min_lr)
                set_value(rate, after)
                if self.verbose > 0:
                    print(f"\nEpoch {epoch + 1:05d}: ReduceLROnPlateau reducing learning rate to "
                          f"{after}.")
                self.cooldown_counter, self.wait = self.cooldown, 0


class CSVLogger(Callback):
    """Writes the numbers of epochs into a file of separated values: those of the first epoch, and
    NA where one of them is missing later on."""

    def __init__(self, filename: str, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.sep, self.append = filename, separator, append
        self.writer: Any = None
        self.keys: list[str] | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Open the file."""
        mode = "a" if self.append else "w"
        self.csv_file = open(self.filename, mode, newline="\n")  # noqa: SIM115 - closed at the end

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write a line."""
        logs = logs or {}
        self.keys = sorted(logs) if self.keys is None else self.keys
        if self.writer is None:
            self.writer = csv.DictWriter(self.csv_file, ["epoch", *self.keys], delimiter=self.sep)
            if not self.csv_file.tell():
                self.writer.writeheader()
        self.writer.writerow({"epoch": epoch, **{k: _field(logs.get(k, "NA")) for k in self.keys}})
        self.csv_file.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Close the file."""
        self.csv_file.close()
        self.writer = None


def _field(value: Any) -> Any:
    """A value as it is written: what has several, in brackets."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return value
    return f'"[{", ".join(map(str, value))}]"'


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
