"""Scaffold: the parts of a graph that training needs besides the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import add_to_collection, get_collection, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Fetches, OperationLike
from hpcflow.graph.operation import Operation
from hpcflow.ops.common.grouping import group
from hpcflow.ops.io.lookup import tables_initializer
from hpcflow.ops.io.summary import merge_all
from hpcflow.ops.state.variable_lists import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from hpcflow.train.saver import Saver


class ModelParts:
    """The operations and the saver of a model in training."""

    _init_op: Any
    _init_feed_dict: dict | None
    _ready_op: Any
    _ready_for_local_init_op: Any
    _summary_op: Any
    _saver: Any

    @property
    def init_op(self) -> Any:
        """The op that initializes the model."""
        return self._init_op

    @property
    def init_feed_dict(self) -> dict | None:
        """The feeds of ``init_op``."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """Gives the names of what is not initialized."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """Gives the names of what ``local_init_op`` needs and is not initialized."""
        return self._ready_for_local_init_op

    @property
    def summary_op(self) -> Any:
        """The merged summaries, or None."""
        return self._summary_op

    @property
    def saver(self) -> Any:
        """The Saver."""
        return self._saver


class Scaffold(ModelParts):
    """Initializers, readiness checks, summaries and the saver: given, found in collections, or
    made by :meth:`finalize`.

    Args:
        init_op: initializes the model (default: all global variables).
        init_feed_dict: feeds of `init_op`.
        init_fn: ``init_fn(scaffold, session)``, called after `init_op`.
        ready_op: gives the names of what is not initialized (default: all variables).
        ready_for_local_init_op: the same, for running `local_init_op` (default: global variables).
        local_init_op: run in every new session (default: local variables and tables).
        summary_op: the merged summaries (default: all of the collection).
        saver: the Saver (default: of all variables).
        copy_from_scaffold: a Scaffold whose parts take the place of those that are not given.
        local_init_feed_dict: feeds of `local_init_op`.

    Raises ``TypeError`` for a `copy_from_scaffold` of another type.
    """

    def __init__(self, init_op: Fetches | None = None, init_feed_dict: dict | None = None,
                 init_fn: Callable | None = None, ready_op: OperationLike | None = None,
                 ready_for_local_init_op: OperationLike | None = None,
                 local_init_op: OperationLike | None = None,
                 summary_op: OperationLike | None = None, saver: Any = None,
                 copy_from_scaffold: Scaffold | None = None,
                 local_init_feed_dict: dict | None = None) -> None:
        if not isinstance(copy_from_scaffold, (Scaffold, type(None))):
            raise TypeError("copy_from_scaffold is not a Scaffold instance, but "
                            f"{copy_from_scaffold!r}")
        self._user_init_fn = init_fn
        self._init_op = init_op
        self._init_feed_dict = init_feed_dict
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._local_init_op = local_init_op
        self._summary_op = summary_op
        self._saver = saver
        self._local_init_feed_dict = local_init_feed_dict
        if copy_from_scaffold is not None:
            for name, value in vars(copy_from_scaffold).items():
                if getattr(self, name) is None:
                    setattr(self, name, value)

    def finalize(self) -> Scaffold:
        """Make what is missing, and let nobody change the graph any more."""
        self._init_op = self._or_default(
            self._init_op, "init_op", GraphKeys.INIT_OP, global_variables_initializer)
        self._ready_op = self._or_default(
            self._ready_op, "ready_op", GraphKeys.READY_OP, report_uninitialized_variables)
        self._ready_for_local_init_op = self._or_default(
            self._ready_for_local_init_op, "ready_for_local_init_op",
            GraphKeys.READY_FOR_LOCAL_INIT_OP,
            lambda: report_uninitialized_variables(global_variables()))
        self._local_init_op = self._or_default(
            self._local_init_op, "local_init_op", GraphKeys.LOCAL_INIT_OP,
            Scaffold.default_local_init_op)
        self._summary_op = self._or_default(
            self._summary_op, "summary_op", GraphKeys.SUMMARY_OP, merge_all)
        self._saver = self._or_default(
            self._saver, "saver", GraphKeys.SAVERS, _new_saver)
        self._saver.build()
        get_default_graph().finalize()
        return self

    @staticmethod
    def default_local_init_op() -> Operation:
        """Return an operation that initializes the local variables and the tables."""
        return group(local_variables_initializer(), tables_initializer())

    def _or_default(self, given: Any, name: str, key: str, make: Callable[[], Any]) -> Any:
        return given if given is not None else Scaffold.get_or_default(name, key, make)

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str,
                       default_constructor: Callable[[], Any]) -> Any:
        """Return the only member of a collection, or make it and add it.

        Raises ``RuntimeError`` if the collection has several.
        """
        found = get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which '
                "one to use by passing it to the hf.train.Scaffold constructor as: "
                f"hf.train.Scaffold({arg_name}=item to use)")
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            add_to_collection(collection_key, made)
        return made

    @property
    def init_fn(self) -> Callable | None:
        """The function of the session that is called after ``init_op``."""
        init_fn = self._user_init_fn
        return None if init_fn is None else lambda session: init_fn(self, session)

    @property
    def local_init_op(self) -> Any:
        """The op run in every new session."""
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> dict | None:
        """The feeds of ``local_init_op``."""
        return self._local_init_feed_dict


def _new_saver() -> Saver:
    return Saver(sharded=True, allow_empty=True)


def saver_or_default() -> Saver:
    """Return the Saver of the default graph's collection SAVERS, made and added if there is none.

    Raises ``RuntimeError`` if the collection has several.
    """
    return Scaffold.get_or_default("saver", GraphKeys.SAVERS, _new_saver)
