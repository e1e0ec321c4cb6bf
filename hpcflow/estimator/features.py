"""The features and labels that input functions return."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hpcflow.data import Dataset
from hpcflow.distribute.inputs import InputContext, batches_of_replica
from hpcflow.estimator.spec import ModeKeys
from hpcflow.graph.graph import add_to_collection, device
from hpcflow.graph.keys import GraphKeys

if TYPE_CHECKING:
    from hpcflow.distribute import Strategy
    from hpcflow.estimator.run_config import RunConfig


def features_and_labels(input_fn: Callable, mode: str, params: Mapping[str, Any],
                        config: RunConfig | None,
                        strategy: Strategy | None = None) -> tuple[Any, Any, list]:
    """Build the input: (features, labels or None, hooks).

    In training the replicas of a `strategy` have a batch each in turn, unless the function divides
    the data by itself, by its argument ``input_context``. Otherwise each has all data.

    Raises ``ValueError`` for a tuple or a data set of other than two parts, and ``TypeError`` for
    what is no function.
    """
    if not callable(input_fn):
        raise TypeError(f"input_fn must be a function; got {input_fn!r}")
    given: dict[str, Any] = {"mode": mode, "params": params, "config": config}
    names = argument_names(input_fn)
    context = strategy.input_context if strategy and mode == ModeKeys.TRAIN else InputContext()
    if strategy is not None:
        given["input_context"] = context
    with device("/cpu:0"):
        found = input_fn(**{name: value for name, value in given.items() if name in names})
        if isinstance(found, Dataset):
            if "input_context" not in names:
                found = batches_of_replica(found, context)
            iterator = found.make_initializable_iterator()
            add_to_collection(GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            found = iterator.get_next()
    if isinstance(found, (list, tuple)):
        if len(found) != 2:
            raise ValueError("input_fn should return (features, labels) as a len 2 tuple; it "
                             f"returned {len(found)} values")
        return found[0], None if mode == ModeKeys.PREDICT else found[1], []
    return found, None, []


def argument_names(function: Callable) -> tuple[str, ...]:
    """Return the names of the arguments of `function`, without those that a partial gives it."""
    given = function.keywords if isinstance(function, functools.partial) else ()
    return tuple(name for name in inspect.signature(function).parameters if name not in given)
