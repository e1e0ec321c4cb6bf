"""Training, evaluation and prediction loops, over arrays and sources of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import hpcflow as hf
from hpcflow.keras.session import get_session

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor
    from hpcflow.keras.callbacks import CallbackList
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


def arrays_of(value: Any, names: list[str] | None) -> list:
    """The arrays of a list, of a dict by the names, or of an array alone. Raises ``ValueError``
    where there is nothing."""
    if value is None:
        raise ValueError("There is no data: expected arrays, or a source of batches")
    if isinstance(value, dict):
        keys = names or list(value)
        missing = [k for k in keys if k not in value]
        if missing:
            raise ValueError(f"No data provided for \"{missing[0]}\". Need data for each key in: "
                             f"{keys}")
        return [np.asarray(value[k]) for k in keys]
    if isinstance(value, (list, tuple)) and (
            (names is not None and len(names) == len(value) and len(names) > 1)
            or any(isinstance(v, np.ndarray) and v.ndim for v in value)):
        return [None if v is None else np.asarray(v) for v in value]
    return [np.asarray(value)]


def weights_of_classes(labels: np.ndarray, weights: Tensor, by_class: dict) -> np.ndarray:
    """Return the weights of examples from their classes, given as integers or one-hot rows.

    Raises ``ValueError`` for a class that has no weight, and for labels of more dimensions.
    """
    if labels.ndim > 2:
        raise ValueError(f"class_weight is for labels of at most two dimensions, not {labels.ndim}")
    numbers = labels.argmax(-1) if labels.ndim > 1 and labels.shape[-1] > 1 else labels.ravel()
    missing = sorted(set(numbers.tolist()) - set(by_class))
    if missing:
        raise ValueError(f"class_weight has no weights of the classes {missing}, which occur")
    own = np.array([by_class[n] for n in numbers.tolist()], np.float32)
    return own if weights is None else own * weights


# ---------------------------------------------------------------- sources of batches


class _Tensors(NamedTuple):
    """Tensors that give a batch whenever they are run, or arrays that stand beside these."""

    x: Any
    y: Any
    weights: Any

    def batch(self) -> tuple:
        """The arrays of a batch."""
        found = get_session().run({n: v for n, v in enumerate(self) if is_symbolic(v)})
        return tuple(found.get(n, v) for n, v in enumerate(self))


def is_symbolic(x: Any) -> bool:
    """True if `x` is a tensor of the graph, or a list or dict that has one: it gives a batch
    whenever it is run."""
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]
    return any(isinstance(v, (hf.Tensor, hf.SparseTensor)) for v in parts)


def of_tensors(x: Any, y: Any, weights: Any, steps: int | None,
               argument: str) -> tuple[Any, Any, Any]:
    """(x, y, weights) of ``fit`` and its kin, as one source if there are tensors among them.

    A tuple without labels has them in it, as the batches of data sets; a list has inputs alone. The
    arrays that stand beside tensors are given whole in each step.

    Raises ``ValueError`` if nothing says how many batches there are.
    """
    if not any(map(is_symbolic, (x, y, weights))):
        return x, y, weights
    if steps is None:
        raise ValueError("When using data tensors as input to a model, you should specify the "
                         f"`{argument}` argument.")
    if isinstance(x, tuple) and y is None:
        x, y, weights = _split(x)
    return _Tensors(x, y, weights), None, None


def is_source(x: Any) -> bool:
    """True if `x` is a source of batches (a data set, an iterator, a sequence), not arrays."""
    if isinstance(x, (_Tensors, hf.data.Dataset, hf.data.Iterator)):
        return True
    return hasattr(x, "__next__") or (
        hasattr(x, "__getitem__") and hasattr(x, "__len__")
        and not isinstance(x, (np.ndarray, list, tuple, dict, str)))


def _batches_of(x: Any) -> Iterator:
    """The batches of a source, as nests of arrays."""
    if isinstance(x, hf.data.Dataset):
        x = hf.data.make_initializable_iterator(x)
        get_session().run(x.initializer)
    if isinstance(x, hf.data.Iterator):
        following = x.get_next()
        while True:
            try:
                yield get_session().run(following)
            except hf.errors.OutOfRangeError:
                return
    elif hasattr(x, "__next__"):
        for batch in x:  # noqa: UP028 (`yield from` would close the generator with this one)
            yield batch
    elif isinstance(x, _Tensors):
        while True:
            yield x.batch()
    else:
        for n in range(len(x)):
            yield x[n]


class _Source:
    """A source of batches for several epochs: data sets and sequences restart, iterators go on."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self._running: Iterator | None = None
        self.begun = False
        self._goes_on = not isinstance(x, hf.data.Dataset) and (
            hasattr(x, "__next__") or isinstance(x, hf.data.Iterator))

    def epoch(self, steps: int | None) -> Iterator:
        """The batches of one epoch."""
        if self._running is None or not self._goes_on:
            if steps is None or self._running is None:
                self._running = _batches_of(self.x)
        running = self._running
        for taken, batch in enumerate(running, 1):
            self.begun = True
            yield batch
            if steps is not None and taken == steps:
                return
        self._running = None


def _split(batch: Sequence[np.ndarray]) -> tuple[Any, Any, Any]:
    """Inputs, labels and weights of a batch."""
    if isinstance(batch, (tuple, list)) and 2 <= len(batch) <= 3:
        return (*batch, None)[:3]  # type: ignore[return-value]
    return batch, None, None


def _arrays(model: Model, data: Batches, order: np.ndarray | None = None,
            class_weight: Any = None) -> Iterator:
    """Batches of arrays: inputs, labels, weights, and the number of examples."""
    xs = model._prepare(data.x, data.y)
    ys, weights = model._labels(data.y, data.weights, class_weight) \
        if model._targets else ([], [])
    count = _check_lengths(xs, ys, weights)
    size = data.batch_size or 32
    starts = range(0, count, size)
    for number, start in enumerate(starts):
        if data.steps is not None and number == data.steps:
            return
        rows: Any = slice(start, start + size) if order is None else order[start:start + size]
        parts = [[None if a is None else a[rows] for a in of] for of in (xs, ys, weights)]
        yield (*parts, len(np.asarray(parts[0][0])))


def _check_lengths(xs: list, ys: list, weights: list) -> int:
    counts = {len(a) for of in (xs, ys, weights) for a in of if a is not None}
    if len(counts) != 1:
        raise ValueError("All input arrays (x), labels and weights should have the same number of "
                         f"samples. Got: {sorted(counts)}")
    return counts.pop()


def _given(model: Model, batches: Iterator, class_weight: Any = None,
           has_labels: bool = True) -> Iterator:
    for batch in batches:
        x, y, weights = _split(batch) if has_labels or isinstance(batch, tuple) else (
            batch, None, None)
        xs = model._prepare(x, y)
        ys, own = model._labels(y, weights, class_weight) if model._targets else ([], [])
        yield xs, ys, own, len(xs[0])


def _once(model: Any, data: Batches, has_labels: bool = True) -> Iterator:
    if is_source(data.x):
        return _given(model, _Source(data.x).epoch(data.steps), None, has_labels)
    return _arrays(model, data)


# ---------------------------------------------------------------- the loops


def evaluate(model: Model, data: Batches) -> list:
    """The losses over all examples, and the metrics."""
    first = True
    means = _Means()
    for xs, ys, weights, count in _once(model, data):
        if first:
            model.reset_metrics()
            first = False
        means.add(model._step(xs, ys, weights, False), count)
    return means.values(model)


def predict(model: Any, data: Batches) -> Any:
    """The predictions of all batches, joined."""
    parts = [model._predict(xs) for xs, *_ in _once(model, data, False)]
    if not parts:
        raise ValueError("Empty training data: there is nothing to predict for")
    joined = [np.concatenate(p) for p in zip(*parts, strict=True)]
    return joined if len(joined) > 1 else joined[0]


class _Means:
    """Running means: losses weighted by batch size, output losses by batch, metrics as they are."""

    def __init__(self) -> None:
        self.total: Any = 0.0
        self.count = self.batches = 0
        self.last: list = []

    def add(self, found: list, count: int) -> None:
        """Take a batch in."""
        self.last = found
        weighted = np.array([float(np.mean(v)) for v in found])
        weighted[0] *= count
        self.total = self.total + weighted
        self.count += count
        self.batches += 1

    def values(self, model: Any) -> list:
        """The losses so far, and the metrics as they are."""
        if not self.count:
            raise ValueError("There is no batch to train on or to evaluate")
        gathered = len(model.metrics)
        losses = [float(self.total[0] / self.count),
                  *(float(v / self.batches) for v in self.total[1:])]
        return losses[:len(losses) - gathered] + self.last[len(losses) - gathered:]


def fit(model: Any, told: Training) -> Any:
    """Train; returns the history."""
    from hpcflow.keras.callbacks import CallbackList

    data, validation = _parts(model, told)
    source = _Source(told.x) if is_source(told.x) else None
    if source is None:
        model._prepare(data.x, data.y)
    callbacks = CallbackList.of(model, told, _size(data), validation is not None)
    callbacks.call("on_train_begin", {})
    model.stop_training = False
    for epoch in range(told.initial_epoch, told.epochs):
        callbacks.call("on_epoch_begin", epoch, {})
        logs = _train_epoch(model, told, data, source, callbacks)
        if logs is None:
            hf.logging.warning("The data have no batch for epoch %d: training ends. Repeat them, "
                               "or leave out steps_per_epoch.", epoch + 1)
            break
        if validation is not None and _is_due(told.validation_freq, epoch):
            found = evaluate(model, validation)
            logs.update(zip((f"val_{n}" for n in model.metrics_names), found, strict=True))
        callbacks.call("on_epoch_end", epoch, logs)
        if model.stop_training:
            break
    callbacks.call("on_train_end", {})
    return model.history


def _train_epoch(model: Any, told: Training, data: Batches, source: _Source | None,
                 callbacks: CallbackList) -> dict | None:
    """The numbers of an epoch; None if a source that has given batches has no more."""
    if source is not None:
        batches = _given(model, source.epoch(told.steps_per_epoch), told.class_weight)
    else:
        count = len(model._prepare(data.x)[0])
        order = _order(count, told.shuffle, data.batch_size or 32)
        batches = _arrays(model, data, order, told.class_weight)
    means, first = _Means(), True
    for number, (xs, ys, weights, count) in enumerate(batches):
        if first:
            model.reset_metrics()
            first = False
        callbacks.call("on_batch_begin", number, {"batch": number, "size": count})
        means.add(model._step(xs, ys, weights, True), count)
        logs = dict(zip(model.metrics_names, means.last, strict=True))
        callbacks.call("on_batch_end", number, {"batch": number, "size": count, **logs})
        if model.stop_training:
            break
    if first and source is not None and source.begun:
        return None
    return dict(zip(model.metrics_names, means.values(model), strict=True))


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


def _is_due(frequency: int, epoch: int) -> bool:
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
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
        parts = of_tensors(*_split(given), told.validation_steps, "validation_steps")
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
