"""What models are trained on: arrays, and sources of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import hpcflow as hf
from hpcflow.keras.session import get_session

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


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


class Tensors(NamedTuple):
    """Tensors that give a batch whenever they are run, or arrays that stand beside these."""

    x: Any
    y: Any
    weights: Any

    def batch(self) -> tuple:
        """The arrays of a batch."""
        found = get_session().run({n: v for n, v in enumerate(self) if is_symbolic(v)})
        return tuple(found.get(n, v) for n, v in enumerate(self))


def is_symbolic(x: Any) -> bool:
    """True if `x` is a tensor or a variable of the graph, or a list or dict that has one: it gives
    a batch whenever it is run."""
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]
    return any(isinstance(v, (hf.Tensor, hf.SparseTensor, hf.Variable)) for v in parts)


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
        x, y, weights = split(x)
    return Tensors(x, y, weights), None, None


def is_source(x: Any) -> bool:
    """True if `x` is a source of batches (a data set, an iterator, a sequence), not arrays."""
    if isinstance(x, (Tensors, hf.data.Dataset, hf.data.Iterator)):
        return True
    return hasattr(x, "__next__") or is_sequence(x)


def check_source(x: Any, y: Any, weights: Any, batch_size: Any, split: float = 0.0) -> None:
    """Raise ``ValueError`` for what a source of batches says itself."""
    if is_symbolic(x) or not is_source(x):
        return
    kind = type(x).__name__
    if y is not None:
        raise ValueError(f"You passed a dataset or dataset iterator ({kind}) as input `x` to your "
                         "model. In that case, you should not specify a target (`y`) argument, "
                         "since the dataset or dataset iterator generates both input data and "
                         "target data.")
    for name, value in (("sample_weight", weights), ("validation_split", split or None)):
        if value is not None:
            raise ValueError(f"`{name}` argument is not supported when input `x` is a dataset or a "
                             f"dataset iterator ({kind})")
    if batch_size is not None:
        raise ValueError("The `batch_size` argument must not be specified for the given input "
                         f"type ({kind}), which has batches")


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
    elif is_sequence(x):
        while len(x):
            for n in range(len(x)):
                yield x[n]
            if hasattr(x, "on_epoch_end"):
                x.on_epoch_end()
    elif hasattr(x, "__next__"):
        for batch in x:  # noqa: UP028 (`yield from` would close the generator with this one)
            yield batch
    elif isinstance(x, Tensors):
        while True:
            yield x.batch()


def is_sequence(x: Any) -> bool:
    """True if `x` has batches by number: it may be gone over again and again."""
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(
        x, (Tensors, np.ndarray, list, tuple, dict, str))


class Source:
    """A source of batches for several epochs: data sets restart, iterators go on, and sequences
    begin again when they are at their end."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self._running: Iterator | None = None
        self.begun = False
        self._length = len(x) if is_sequence(x) else None
        self._goes_on = not isinstance(x, hf.data.Dataset) and (
            hasattr(x, "__next__") or isinstance(x, hf.data.Iterator) or is_sequence(x))
        self.is_of_python = not isinstance(x, (Tensors, hf.data.Dataset, hf.data.Iterator))

    def epoch(self, steps: int | None) -> Iterator:
        """The batches of one epoch."""
        steps = self._length if steps is None else steps
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


def split(batch: Sequence[np.ndarray]) -> tuple[Any, Any, Any]:
    """Inputs, labels and weights of a batch."""
    if isinstance(batch, (tuple, list)) and 2 <= len(batch) <= 3:
        return (*batch, None)[:3]  # type: ignore[return-value]
    return batch, None, None
