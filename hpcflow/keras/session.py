"""The session of models, the learning phase, and names by number; all belong to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

import hpcflow as hf
from hpcflow.framework import nest
from hpcflow.layers.names import get_uid, reset_uids
from hpcflow.train.shared_session import forget_session, get_session

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_fixed_phases: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_PHASE = "_hpcflow_keras_learning_phase"


def unique_name(prefix: str) -> str:
    """The name of a layer that has none: ``dense``, ``dense_1``, ..."""
    number = get_uid(prefix)
    return prefix if number == 1 else f"{prefix}_{number - 1}"


# ---------------------------------------------------------------- the learning phase


def learning_phase() -> Any:
    """Return the scalar that says whether the model is in training: a placeholder, False unless
    fed, or the number that was set."""
    graph = hf.get_default_graph()
    if graph in _fixed_phases:
        return _fixed_phases[graph]
    kept = hf.get_collection_ref(_PHASE)
    if not kept:
        with hf.init_scope(), hf.name_scope(""):
            kept.append(hf.placeholder_with_default(False, [], name="keras_learning_phase"))
    return kept[0]


symbolic_learning_phase = learning_phase


def fixed_phase() -> int | None:
    """Return the learning phase that was set, None if none was."""
    return _fixed_phases.get(hf.get_default_graph())


def set_learning_phase(value: int) -> None:
    """Let layers that are made from now on be in training (1) or not (0)."""
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    _fixed_phases[hf.get_default_graph()] = int(value)


@contextmanager
def learning_phase_scope(value: int) -> Iterator[None]:
    """Context manager in which layers are made for training (1) or not (0)."""
    graph = hf.get_default_graph()
    before = _fixed_phases.get(graph)
    set_learning_phase(value)
    try:
        yield
    finally:
        _fixed_phases.pop(graph, None)
        if before is not None:
            _fixed_phases[graph] = before


def phase_feed(value: bool) -> dict:
    """Return the feed dictionary of the learning phase; empty if no layer has read it."""
    kept = hf.get_collection_ref(_PHASE)
    return {kept[0]: value} if kept else {}


# ---------------------------------------------------------------- the session


def get_graph() -> Any:
    """Return the graph that models are made in, the default one."""
    return hf.get_default_graph()


def clear_session() -> None:
    """Forget the session, and begin with an empty default graph."""
    forget_session()
    reset_uids()
    _fixed_phases.clear()
    hf.reset_default_graph()


# ---------------------------------------------------------------- values


def get_value(x: TensorLike) -> Any:
    """Return the value of a variable or tensor."""
    return get_session().run(x)


def batch_get_value(tensors: Sequence[Any]) -> list:
    """Return the values of several."""
    return get_session().run(list(tensors)) if tensors else []


def set_value(x: TensorLike, value: TensorLike) -> None:
    """Set a variable."""
    batch_set_value([(x, value)])


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    """Set several variables, pairs of a variable and its value."""
    if not tuples:
        return
    session = get_session()
    for variable, value in tuples:
        array = np.asarray(value, variable.dtype.base_dtype.as_numpy_dtype)
        variable.load(array, session)


class Function:
    """A function of arrays, which :func:`function` returns.

    `fetches` are operations that run beside it, whose values the functions of `fetch_callbacks` get
    by these, and `feed_dict` is fed with each call; both may be changed between calls.
    """

    def __init__(self, inputs: Any, outputs: Any, updates: Any = None, name: str | None = None,
                 feed_dict: dict | None = None, fetches: Any = None, options: Any = None,
                 run_metadata: Any = None) -> None:
        if not isinstance(updates, (list, tuple, type(None))):
            raise TypeError("`updates` in a Keras backend function should be a list or tuple.")
        self.inputs, self.outputs, self.name = flat(inputs), flat(outputs), name
        self._structure = outputs
        self.feed_dict, self.fetch_callbacks = feed_dict, dict[Any, Callable]()
        self.run_options, self.run_metadata = options, run_metadata
        self.fetches = [hf.identity(v) for v in nest.flatten(fetches if fetches else [])]
        with hf.control_dependencies([t for t in self.outputs[:1] if t is not None]):
            self.updates_op = hf.group(*[hf.assign(*u) if isinstance(u, tuple) else u
                                         for u in updates or []])

    def __call__(self, inputs: Any) -> Any:
        """Return the values of the outputs, nested as these; what is None is not fed."""
        session = get_session()
        values = list(inputs) if isinstance(inputs, (list, tuple)) else flat(inputs)
        feeds = dict(self.feed_dict or {})
        for tensor, value in zip(self.inputs, values, strict=True):
            if value is None or isinstance(tensor, int):
                continue
            known = session.run(value) if isinstance(value, (hf.Tensor, hf.Variable)) else value
            feeds[tensor] = known if isinstance(tensor, hf.SparseTensor) else np.asarray(
                known, tensor.dtype.base_dtype.as_numpy_dtype)
        found, others, _ = session.run([self.outputs, self.fetches, self.updates_op], feeds,
                                       self.run_options, self.run_metadata)
        for fetch, value in zip(self.fetches, others, strict=True):
            if fetch in self.fetch_callbacks:
                self.fetch_callbacks[fetch](value)
        if isinstance(self._structure, dict):
            return dict(zip(self._structure, found, strict=True))
        return nest.pack_sequence_as(self._structure, found)


def function(inputs: TensorLike, outputs: TensorLike, updates: Sequence[TensorLike] | None = None,
             name: str | None = None, **options: Any) -> Function:
    """Return a function of arrays: it feeds `inputs`, and returns the values of `outputs`.

    `updates` are operations, or pairs of a variable and its new value, that run with each call; see
    :class:`Function` for the other options. ``ValueError`` for options that are unknown.
    """
    unknown = set(options) - {"feed_dict", "fetches", "options", "run_metadata"}
    if unknown:
        raise ValueError(f"Some keys in session_kwargs are not supported at this time: {unknown}")
    return Function(inputs, outputs, updates, name, **options)


def flat(value: TensorLike) -> list:
    """The values of a nest, or of a dict in the order of its keys."""
    return list(value.values()) if isinstance(value, dict) else nest.flatten(value)
