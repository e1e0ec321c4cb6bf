"""The features and labels that input functions return."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hpcflow.data import Dataset
from hpcflow.estimator.spec import ModeKeys
from hpcflow.graph.graph import add_to_collection, device
from hpcflow.graph.keys import GraphKeys

if TYPE_CHECKING:
    from hpcflow.estimator.run_config import RunConfig


def features_and_labels(input_fn: Callable, mode: str, params: Mapping[str, Any],
                        config: RunConfig | None) -> tuple[Any, Any, list]:
    """Build the input: (features, labels or None, hooks).

    Raises ``ValueError`` for a tuple or a data set of other than two parts, and ``TypeError`` for
    what is no function.
    """
    if not callable(input_fn):
        raise TypeError(f"input_fn must be a function; got {input_fn!r}")
    given = {"mode": mode, "params": params, "config": config}
    names = _argument_names(input_fn)
    with device("/cpu:0"):
        found = input_fn(**{name: value for name, value in given.items() if name in names})
        if isinstance(found, Dataset):
            iterator = found.make_initializable_iterator()
            add_to_collection(GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            found = iterator.get_next()
    if isinstance(found, (list, tuple)):
        if len(found) != 2:
            raise ValueError("input_fn should return (features, labels) as a len 2 tuple; it "
                             f"returned {len(found)} values")
        return found[0], None if mode == ModeKeys.PREDICT else found[1], []
    return found, None, []


def _argument_names(function: Callable) -> set[str]:
    """Return the names of the arguments of `function`, without those that a partial gives it."""
    given = set(function.keywords) if isinstance(function, functools.partial) else set()
    return set(inspect.signature(function).parameters) - given
