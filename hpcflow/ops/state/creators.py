"""variable_creator_scope: functions that stand between a program and its variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.reentry import reentrant

__all__ = ["variable_creator_scope"]


@reentrant
def variable_creator_scope(variable_creator: Callable) -> Iterator[None]:
    """Let `variable_creator` make the variables of the default graph inside of this context.

    ``variable_creator(next_creator, **arguments)`` is called with the arguments of ``Variable``,
    all of them by name, and returns a variable, which ``next_creator(**arguments)`` makes: the
    creator of the scope around this one, and in the end ``Variable`` itself.

    Raises ``RuntimeError`` at the end of the context if another one that was opened inside is
    still open.
    """
    graph = get_default_graph()
    before = graph._variable_creators
    inside = [*before, variable_creator]
    graph._variable_creators = inside
    try:
        yield
    finally:
        if graph._variable_creators is not inside:
            raise RuntimeError("Exiting variable_creator_scope without proper nesting.")
        graph._variable_creators = before


class Created(type):
    """The class of ``Variable``: asks the creators that are open before it makes one.

    Of the classes with this one only those that say so (`asks_creators`) ask, not derived ones.
    """

    def __call__(cls, *args: Any, **arguments: Any) -> Any:
        make = super().__call__
        creators = get_default_graph()._variable_creators
        if not creators or "asks_creators" not in cls.__dict__:
            return make(*args, **arguments)
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        bound = signature.bind(None, *args, **arguments)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        for creator in creators:
            make = _asking(creator, make)
        return make(**given)


def _asking(creator: Callable, next_creator: Callable) -> Callable:
    return lambda **arguments: creator(next_creator, **arguments)
