"""The base of callbacks, a list of them, and those that each training has."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from hpcflow.keras.progress import Progbar

Logs = dict[str, Any] | None


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

    def on_train_begin(self, logs: Logs = None) -> None:
        """Called before the first epoch."""

    def on_train_end(self, logs: Logs = None) -> None:
        """Called after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Called before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Called after an epoch, with its losses and metrics, and those of validation."""

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before a batch."""

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after a batch, with its losses, and the metrics of the epoch so far."""

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """The same as :meth:`on_batch_begin`."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """The same as :meth:`on_batch_end`."""
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: Logs = None) -> None:
        """Called before an evaluation, also that of an epoch's validation."""

    def on_test_end(self, logs: Logs = None) -> None:
        """Called after an evaluation."""

    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before a batch is evaluated."""

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after a batch was evaluated, with its losses and the metrics so far."""

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Called before a prediction."""

    def on_predict_end(self, logs: Logs = None) -> None:
        """Called after a prediction."""

    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called before there are predictions for a batch."""

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Called after that, with the predictions as ``outputs``."""


_METHODS = frozenset(n for n in vars(Callback) if n.startswith("on_"))


class CallbackList:
    """Callbacks that are called one after the other: it has their methods, which call all."""

    def __init__(self, callbacks: Iterable[Callback] | None = None, queue_length: int = 10) -> None:
        self.callbacks = list(callbacks or ())
        self.params: dict = {}
        self.model: Any = None

    @classmethod
    def of(cls, model: Any, callbacks: Any, params: dict) -> CallbackList:
        """Return the callbacks of a model, with parameters; what is such a list stays as it is."""
        if isinstance(callbacks, CallbackList):
            return callbacks
        own = cls(callbacks)
        own.set_model(model)
        own.set_params(params)
        return own

    def append(self, callback: Callback) -> None:
        """Add a callback."""
        self.callbacks.append(callback)

    def set_params(self, params: dict) -> None:
        """Give all callbacks the parameters."""
        self.params = params
        self.call("set_params", params)

    def set_model(self, model: Any) -> None:
        """Give all callbacks the model."""
        self.model = model
        self.call("set_model", model)

    def call(self, method: str, *args: Any) -> None:
        """Call a method of all callbacks."""
        for callback in self.callbacks:
            getattr(callback, method)(*args)

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(self._called, name.replace("on_batch", "on_train_batch"))

    def _called(self, method: str, *args: Any, logs: Logs = None) -> None:
        number = args[:1] if "batch" in method or "epoch" in method else ()
        given = args[len(number)] if len(args) > len(number) else logs
        self.call(method, *number, (given or {}) if number else given)

    def __iter__(self) -> Iterator[Callback]:
        """Go over the callbacks."""
        return iter(self.callbacks)


class History(Callback):
    """Keeps what each epoch gave: ``epoch``, and lists by name in ``history``."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch: list[int] = []
        self.history: dict[str, list] = {}

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin anew."""
        self.epoch, self.history = [], {}

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Keep the numbers."""
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)


class BaseLogger(Callback):
    """Gives the callbacks after it the means of an epoch: over its examples, except of
    `stateful_metrics`, whose last values are kept."""

    def __init__(self, stateful_metrics: Any = None) -> None:
        super().__init__()
        self.stateful_metrics = set(stateful_metrics or ())

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Begin anew."""
        self.seen, self.totals = 0, dict[str, Any]()

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Take the numbers of a batch in."""
        logs = logs or {}
        size = logs.get("size", 0)
        self.seen += size
        for key, value in logs.items():
            self.totals[key] = value if key in self.stateful_metrics else (
                self.totals.get(key, 0) + value * size)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Put the means into `logs`."""
        for key in self.params["metrics"]:
            if key in self.totals and logs is not None:
                logs[key] = self.totals[key] if key in self.stateful_metrics else (
                    self.totals[key] / self.seen)


class ProgbarLogger(Callback):
    """Prints a bar, or a line for each epoch, that counts ``samples`` or ``steps``.

    Averages are shown, of `stateful_metrics` the last values. Unless the output is a terminal, a
    line is printed at the end of an epoch alone. ``ValueError`` for another `count_mode`.
    """

    def __init__(self, count_mode: str = "samples", stateful_metrics: Any = None) -> None:
        super().__init__()
        if count_mode not in ("samples", "steps"):
            raise ValueError(f"Unknown `count_mode`: {count_mode}")
        self.use_steps = count_mode == "steps"
        self.stateful_metrics = set(stateful_metrics or ())

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Print the number of the epoch, if there are several."""
        self.seen = 0
        self.target = self.params["steps" if self.use_steps else "samples"]
        verbose, epochs = self.params["verbose"], self.params["epochs"] or 1
        if verbose and epochs > 1:
            print(f"Epoch {epoch + 1}/{epochs}")
        self.progbar = Progbar(self.target, verbose=verbose, unit_name="step" if self.use_steps
                               else "sample", stateful_metrics=self.stateful_metrics)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Show how far the epoch is."""
        self.seen += 1 if self.use_steps else (logs or {}).get("size", 0)
        if self.target is None or self.seen < self.target:  # else the end of the epoch shows it
            self.progbar.update(self.seen, self._shown(logs), show=sys.stdout.isatty())

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Print the numbers."""
        self.progbar.target = self.progbar.target or self.seen
        self.progbar.update(self.seen, self._shown(logs))

    def _shown(self, logs: Logs) -> list:
        return [(k, logs[k]) for k in self.params["metrics"] if k in (logs or {})]  # type: ignore[index]
