"""Training, evaluation and prediction loops, over arrays and sources of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import hpcflow as hf
from hpcflow.keras.engine.sources import (
    Source,
    arrays_of,
    is_sequence,
    is_source,
    of_tensors,
    split,
)

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.keras.engine.training import Model


class Training(NamedTuple):
    """The arguments of ``fit``."""

    x: Any
    y: Any
    batch_size: int | None
    epochs: int
    verbose: int
    callbacks: Any
    validation_split: float
    validation_data: Any
    shuffle: Any
    class_weight: Any
    sample_weight: Any
    initial_epoch: int
    steps_per_epoch: int | None
    validation_steps: int | None
    validation_freq: Any


class Batches(NamedTuple):
    """The data of one epoch: arrays, or a source of batches."""

    x: Any
    y: Any
    weights: Any
    batch_size: int | None
    steps: int | None


def _arrays(model: Model, data: Batches, order: np.ndarray | None = None, class_weight: Any = None,
            has_labels: bool = True) -> Iterator:
    """Batches of arrays: inputs, labels, weights, and the number of examples."""
    xs = model._prepare(data.x, data.y)
    ys, weights = model._labels(data.y, data.weights, class_weight) \
        if model._targets and has_labels else ([], [])
    count = check_lengths(xs, ys, weights)
    size = data.batch_size or 32
    starts = range(0, count, size)
    for number, start in enumerate(starts):
        if data.steps is not None and number == data.steps:
            return
        rows: Any = slice(start, start + size) if order is None else order[start:start + size]
        parts = [[None if a is None else a[rows] for a in of] for of in (xs, ys, weights)]
        yield (*parts, len(np.asarray(parts[0][0])))


def check_lengths(xs: list, ys: list, weights: list) -> int:
    """Return how many examples there are. ``ValueError`` if arrays have different numbers."""
    counts = {len(a) for of in (xs, ys, weights) for a in of if a is not None}
    if len(counts) != 1:
        raise ValueError("All input arrays (x), labels and weights should have the same number of "
                         f"samples. Got: {sorted(counts)}")
    return counts.pop()


def _given(model: Model, batches: Iterator, class_weight: Any = None, has_labels: bool = True,
           of_python: bool = True) -> Iterator:
    """The batches of a source; those of data sets and tensors all have size 1, as in 1.x."""
    for batch in batches:
        x, y, weights = split(batch) if has_labels or isinstance(batch, tuple) else (
            batch, None, None)
        xs = model._prepare(x, y)
        trained = model._targets and has_labels
        ys, own = model._labels(y, weights, class_weight) if trained else ([], [])
        yield xs, ys, own, len(xs[0]) if of_python else 1


def _once(model: Any, data: Batches, has_labels: bool = True) -> Iterator:
    if is_source(data.x):
        source = Source(data.x)
        return _given(model, source.epoch(data.steps), None, has_labels, source.is_of_python)
    return _arrays(model, data, has_labels=has_labels)


# ---------------------------------------------------------------- the loops


class _Watch:
    """What looks at a loop of one kind (``train``, ``test``, ``predict``): the callbacks, and the
    bar of its progress."""

    def __init__(self, model: Model, kind: str, data: Batches, callbacks: Any, verbose: int,
                 epochs: int | None = None, validates: bool = False) -> None:
        from hpcflow.keras.callback_list import BaseLogger, CallbackList, History, ProgbarLogger

        self.model, self.kind, self.data = model, kind, data
        self.names: list[str] = []  # of the numbers, those of validation behind the others
        self.validates = validates
        samples = _size(data)
        in_steps = samples is None or data.steps is not None
        size = data.batch_size or (None if in_steps else 32)
        steps = data.steps or (len(data.x) if is_sequence(data.x) else None)
        params = {"batch_size": size, "epochs": epochs, "verbose": verbose,
                  "steps": steps or (samples and -(-samples // (size or 32))),
                  "samples": samples if samples is not None else steps,
                  "do_validation": validates, "metrics": self.names}
        self.means = BaseLogger()
        if kind == "train":
            model.history = History()
            callbacks = [self.means, *(callbacks or ()), model.history]
        self.callbacks = CallbackList.of(model, callbacks, params)
        self.bar = ProgbarLogger("steps" if in_steps else "samples")
        self.bar.set_params(params)
        self._take_names()

    def _take_names(self) -> None:
        """Take the names of the numbers, all of which are known when there was a batch."""
        names = self.model.metrics_names if self.kind != "predict" else []
        self.names[:] = [*names, *(f"val_{n}" for n in names if self.validates)]
        self.means.stateful_metrics = self.bar.stateful_metrics = set(names[1:])

    def begin(self) -> None:
        """Begin the loop."""
        self.model.stop_training = False
        self.callbacks.call(f"on_{self.kind}_begin", None)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch."""
        if self.kind == "train":
            self.callbacks.call("on_epoch_begin", epoch, {})
        self.bar.on_epoch_begin(epoch)

    def run(self, batches: Iterator, step: Callable) -> Iterator[tuple[Any, int]]:
        """What `step` makes of the batches, with their sizes, until training is to stop.

        The losses of outputs are their means over the batches so far, as metrics are.
        """
        totals = np.zeros(0)
        for number, (*batch, count) in enumerate(batches):
            if not number and self.kind != "predict":
                self.model.reset_metrics()
            logs = {"batch": number, "size": count}
            self.callbacks.call(f"on_{self.kind}_batch_begin", number, logs)
            found = step(*batch)
            if not number:
                self._take_names()
                if self.kind != "predict":
                    totals = np.zeros(len(found) - 1 - len(self.model.metrics))
            if len(totals):
                totals += found[1:len(totals) + 1]
                found[1:len(totals) + 1] = (totals / (number + 1)).tolist()
            logs.update({"outputs": found} if self.kind == "predict" else
                        zip(self.model.metrics_names, found, strict=True))
            self.callbacks.call(f"on_{self.kind}_batch_end", number, logs)
            self.bar.on_batch_end(number, logs)
            yield found, count
            if self.model.stop_training:
                return

    def end_epoch(self, epoch: int, logs: dict) -> None:
        """End an epoch."""
        if self.kind == "train":
            self.callbacks.call("on_epoch_end", epoch, logs)
        self.bar.on_epoch_end(epoch, logs)

    def end(self) -> None:
        """End the loop."""
        self.callbacks.call(f"on_{self.kind}_end", None)


def evaluate(model: Model, data: Batches, callbacks: Any = None, verbose: int = 0) -> list:
    """The losses over all examples, and the metrics."""
    watch, means = _Watch(model, "test", data, callbacks, verbose), _Means()
    watch.begin()
    watch.begin_epoch(0)
    in_steps = is_source(data.x)
    for found, count in watch.run(_once(model, data),
                                  lambda xs, ys, own: model._step(xs, ys, own, False)):
        means.add(found, 1 if in_steps else count)
    results = means.values()
    watch.end_epoch(0, dict(zip(model.metrics_names, results, strict=True)))
    watch.end()
    return results


def predict(model: Any, data: Batches, callbacks: Any = None, verbose: int = 0) -> Any:
    """The predictions of all batches, joined."""
    watch = _Watch(model, "predict", data, callbacks, verbose)
    watch.begin()
    watch.begin_epoch(0)
    parts = []
    for found, count in watch.run(_once(model, data, False), lambda xs, *_: model._predict(xs)):
        for part in found if not is_source(data.x) else ():
            if np.ndim(part) and len(part) != count:
                raise ValueError("Mismatch between expected batch size and model output batch "
                                 f"size. Output shape = {part.shape}, expected output shape = "
                                 f"shape {(count, *part.shape[1:])}")
        parts.append(found)
    if not parts:
        raise ValueError("Empty training data: there is nothing to predict for")
    watch.end_epoch(0, {})
    watch.end()
    joined = [np.concatenate(p) for p in zip(*parts, strict=True)]
    return joined if len(joined) > 1 else joined[0]


class _Means:
    """The mean of the loss over all examples, and the other numbers as they are."""

    def __init__(self) -> None:
        self.total = 0.0
        self.count = self.batches = 0
        self.last: list = []

    def add(self, found: list, count: int) -> None:
        """Take a batch in."""
        self.last = found
        self.total += found[0] * count
        self.count += count
        self.batches += 1

    def values(self) -> list:
        """The loss so far, and the other numbers as they are."""
        if not self.count:
            raise ValueError("There is no batch to train on or to evaluate")
        return [self.total / self.count, *self.last[1:]]


def fit(model: Model, told: Training) -> Any:
    """Train; returns the history."""
    data, validation = _parts(model, told)
    source = Source(told.x) if is_source(told.x) else None
    if source is None:
        model._prepare(data.x, data.y)
    if validation is not None:
        _is_due(told.validation_freq, 0)
    watch = _Watch(model, "train", data, told.callbacks, told.verbose, told.epochs,
                   validation is not None)
    if told.verbose and not (source is not None and source.is_of_python):
        _print_sizes(data, validation)
    for callback in watch.callbacks:
        callback.validation_data = told.validation_data
    watch.begin()
    for epoch in range(told.initial_epoch, told.epochs):
        watch.begin_epoch(epoch)
        logs = _train_epoch(model, told, data, source, watch)
        if logs is None:
            break
        if validation is not None and not model.stop_training and _is_due(
                told.validation_freq, epoch):
            found = evaluate(model, validation, watch.callbacks)
            logs.update(zip((f"val_{n}" for n in model.metrics_names), found, strict=True))
        watch.end_epoch(epoch, logs)
        if model.stop_training:
            break
    watch.end()
    return model.history


def _print_sizes(data: Batches, validation: Batches | None) -> None:
    unit = "samples" if _size(data) is not None and data.steps is None else "steps"
    sizes = [d.steps if unit == "steps" or _size(d) is None else _size(d)
             for d in (data, validation) if d is not None]
    text = f"Train on {sizes[0]} {unit}"
    print(text + (f", validate on {sizes[1]} {unit}" if len(sizes) > 1 and sizes[1] else ""))


def _train_epoch(model: Model, told: Training, data: Batches, source: Source | None,
                 watch: _Watch) -> dict | None:
    """The numbers of an epoch; None if a source that has given batches has no more."""
    if source is not None:
        batches = _given(model, source.epoch(told.steps_per_epoch), told.class_weight,
                         of_python=source.is_of_python)
    else:
        count = len(model._prepare(data.x)[0])
        order = _order(count, told.shuffle, data.batch_size or 32)
        batches = _arrays(model, data, order, told.class_weight)
    means = _Means()
    for found, count in watch.run(batches, lambda xs, ys, own: model._step(xs, ys, own, True)):
        means.add(found, count)
    if source is not None and not model.stop_training and (
            means.batches < (told.steps_per_epoch or 1)):
        hf.logging.warning(
            "Your dataset ran out of data; interrupting training. Make sure that your dataset can "
            "generate at least `steps_per_epoch * epochs` batches (in this case, %d batches). You "
            "may need to use the repeat() function when building your dataset.",
            (told.steps_per_epoch or 1) * told.epochs)
        model.stop_training = True
        if not means.batches and source.begun:
            return None
    return dict(zip(model.metrics_names, means.values(), strict=True))


def _order(count: int, shuffle: Any, size: int) -> np.ndarray | None:
    if not shuffle:
        return None
    if shuffle == "batch":
        starts = np.arange(0, count - count % size, size)
        np.random.shuffle(starts)
        whole = (starts[:, None] + np.arange(size)).ravel()
        return np.concatenate([whole, np.arange(count - count % size, count)])
    order = np.arange(count)
    np.random.shuffle(order)
    return order


def _size(data: Batches) -> int | None:
    return None if is_source(data.x) else len(arrays_of(data.x, None)[0])


def _is_due(frequency: Any, epoch: int) -> bool:
    """True if an epoch ends with an evaluation. ``ValueError`` for another frequency."""
    if isinstance(frequency, int):
        if frequency < 1:
            raise ValueError("`validation_freq` can not be less than 1.")
        return (epoch + 1) % frequency == 0
    if not hasattr(frequency, "__contains__"):
        raise ValueError("`validation_freq` must be an Iterable or int.")
    return epoch + 1 in frequency


def _parts(model: Any, told: Training) -> tuple[Batches, Batches | None]:
    """Return the data to train on, and the data to evaluate on, or None."""
    data = Batches(told.x, told.y, told.sample_weight, told.batch_size, told.steps_per_epoch)
    given = told.validation_data
    if given is not None:
        if is_source(given):
            return data, Batches(given, None, None, told.batch_size, told.validation_steps)
        if len(given) not in (2, 3):
            raise ValueError("validation_data should be a tuple `(val_x, val_y)` or `(val_x, val_y,"
                             f" val_sample_weights)`, got {len(given)} items")
        parts = of_tensors(*split(given), told.validation_steps, "validation_steps")
        return data, Batches(*parts, told.batch_size, told.validation_steps)
    if not told.validation_split:
        return data, None
    if not 0 < told.validation_split < 1 or is_source(told.x):
        raise ValueError("`validation_split` must be between 0 and 1, and is for arrays alone")
    count = _size(data) or 0
    cut = int(count * (1.0 - told.validation_split))
    first, last = ([_sliced(v, rows) for v in (told.x, told.y, told.sample_weight)]
                   for rows in (slice(0, cut), slice(cut, None)))
    return (Batches(first[0], first[1], first[2], told.batch_size, told.steps_per_epoch),
            Batches(last[0], last[1], last[2], told.batch_size, told.validation_steps))


def _sliced(value: TensorLike, rows: slice) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return {k: np.asarray(v)[rows] for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        arrays = arrays_of(value, None)
        return [a[rows] for a in arrays] if len(arrays) > 1 else arrays[0][rows]
    return np.asarray(value)[rows]
