"""The base of all data sets, and the state that the iterators of one pass over them share."""

from __future__ import annotations

import copy
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from hpcflow.dtypes import DType
from hpcflow.errors import CancelledError, InvalidArgumentError

Element = tuple
Dims = tuple | None
AUTOTUNE = -1  # a number that is left to the library
INFINITE, UNKNOWN = -1, -2  # numbers of elements


class Function(Protocol):
    """A function of the graph, ready to be called with the values of its inputs.

    Attributes:
        waits: a call may have to wait for other operations.
        has_state: calls go on in a sequence (of random numbers, say), which every pass begins anew.
    """

    waits: bool
    has_state: bool

    def __call__(self, *inputs: Any) -> tuple:
        """The outputs."""

    def fresh(self) -> Function:
        """The same function with a state of its own, whose calls are cancelled by themselves."""

    def cancel(self) -> None:
        """Stop the calls that are under way."""


class Dataset:
    """A sequence of elements; each pass over it begins anew.

    Attributes:
        types, shapes: dtype and dims of every component of the elements.
    """

    def __init__(self, types: list[DType], shapes: list[Dims]) -> None:
        self.types = types
        self.shapes = shapes

    def iterate(self, run: Run) -> Iterator[Element]:
        """An iterator over the elements. After an error it can be asked for the next element."""
        return self._pass(run)

    def _pass(self, run: Run) -> Iterator[Element]:
        """Return the iterator of ``iterate``; subclasses implement it."""
        raise NotImplementedError

    def cardinality(self) -> int:
        """The number of elements, as far as it is known without a pass; INFINITE or UNKNOWN."""
        return UNKNOWN


class Waiter(Protocol):
    """An iterator whose elements others may compute."""

    def ready(self) -> bool:
        """True if the next element is there, or can be had without waiting."""

    def stop(self) -> None:
        """Wake whoever waits: the pass is cancelled."""


class _Shared:
    """The state that all parts of a pass share."""

    def __init__(self) -> None:
        self.cancelled = False
        self.waits = False  # for functions


class Run:
    """One pass over a data set, or over the part of it at one place.

    A data set that is used at two places, as by a ``zip`` with itself, has generators of random
    numbers and states of functions of its own at each.

    Attributes:
        place: which source was taken, at every data set above that has several.
        start: ``start(work)`` calls `work` in another thread, soon.
        cancelled: nothing new is computed; who waits gets a ``CancelledError``.
        entropy: what everything that has no seed is drawn from.
    """

    def __init__(self, start: Callable[[Callable[[], None]], None],
                 entropy: int | None = None) -> None:
        self.start = start
        self.entropy = random.getrandbits(64) if entropy is None else entropy
        self.place: tuple[int, ...] = ()
        self._drawn: dict[Any, int] = {}
        self.shared = _Shared()
        self._lock = threading.Lock()
        self._waiters: weakref.WeakSet[Any] = weakref.WeakSet()
        self._functions: dict[Any, Function] = {}

    @property
    def cancelled(self) -> bool:
        """See the class."""
        return self.shared.cancelled

    def at(self, source: int) -> Run:
        """The part of this pass that goes over source number `source` of several."""
        part = copy.copy(self)
        part.place = (*self.place, source)
        return part

    def generator(self, owner: Any, same: bool) -> random.Random:
        """The generator of the next pass over `owner`, or of all of them with `same`.

        Runs of one entropy in which passes begin in the same order have the same ones.
        """
        owner = (owner, self.place)
        with self._lock:
            count = self._drawn.get(owner)
            number = list(self._drawn).index(owner) if count is not None else len(self._drawn)
            self._drawn[owner] = (count or 0) + 1
        return random.Random(f"{self.entropy}:{number}:{0 if same else count or 0}")

    def function(self, function: Function) -> Function:
        """`function` for this pass."""
        if function.waits:
            self.shared.waits = True
        if not (function.has_state or function.waits):
            return function
        with self._lock:
            key = (function, self.place)
            found = self._functions.get(key)
            if found is None:
                found = self._functions[key] = function.fresh()
            return found

    def joined(self, waiter: Waiter) -> None:
        """Take down an iterator for which others compute."""
        with self._lock:
            self._waiters.add(waiter)

    def ready(self, top: Any) -> bool:
        """True if the next element of the outermost iterator `top` can be had without waiting."""
        if self.shared.waits and top not in self._waiters:
            return False
        waiters = list(self._waiters)
        if not waiters:
            return not self.shared.waits
        return all(w.ready() for w in waiters) if top not in self._waiters else top.ready()

    def check(self) -> None:
        """Raise ``CancelledError`` if the pass was cancelled."""
        if self.cancelled:
            raise CancelledError(None, None, "The iterator was cancelled")

    def cancel(self) -> None:
        """Stop all that is under way."""
        with self._lock:
            self.shared.cancelled = True
            waiters, functions = list(self._waiters), list(self._functions.values())
        for waiter in waiters:
            waiter.stop()
        for function in functions:
            function.cancel()


def check_types(types: list[DType], shapes: list[Dims], dataset: Dataset) -> None:
    """Raise ``InvalidArgumentError`` unless the elements of `dataset` have these types and shapes,
    as far as these are known."""
    if len(types) != len(dataset.types):
        raise InvalidArgumentError(
            None, None, f"Number of components does not match: expected {len(types)} types but got "
            f"{len(dataset.types)}.")
    for i, (want, have) in enumerate(zip(types, dataset.types, strict=True)):
        if want is not have:
            raise InvalidArgumentError(
                None, None, f"Data type mismatch at component {i}: expected {want.name} but got "
                f"{have.name}.")
    for i, (wanted, dims) in enumerate(zip(shapes, dataset.shapes, strict=True)):
        if not compatible(wanted, dims):
            raise InvalidArgumentError(
                None, None, f"Incompatible shapes at component {i}: expected {show(wanted)} but "
                f"got {show(dims)}.")


def compatible(a: Dims, b: Dims) -> bool:
    """True if some shape fits both."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def show(dims: Dims) -> str:
    """A shape as messages show it."""
    if dims is None:
        return "<unknown>"
    return "[" + ",".join(["?" if d is None else str(d) for d in dims]) + "]"
