"""Partial runs: one step whose feeds arrive, and whose values are fetched, bit by bit.

The step is compiled once, with regions that wait for the same feeds only. It starts without any
feed, computes whatever it can, and stays parked between the calls.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.emit.executable import MISSING
from hpcflow.errors import CancelledError, InvalidArgumentError
from hpcflow.graph.graph import Graph
from hpcflow.graph.likes import Fetches
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.runtime.executor.executor import check_results
from hpcflow.runtime.session.fetching import FetchMap, fed_tensors, feed_converter, flat_feeds

if TYPE_CHECKING:
    from hpcflow.runtime.steps.compiled import LocalRun


class PartialRuns:
    """The partial runs of one session that are under way, by their handles."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._numbers = itertools.count(1)
        self._runs: dict[str, _PartialRun] = {}
        self._plans: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def setup(self, fetches: Fetches, feeds: Any) -> str:
        """Compile the step if it is new, start a run of it, and return the handle.

        Raises ``InvalidArgumentError`` if there is nothing to fetch.
        """
        session = self._session
        graph = session.graph
        elements = FetchMap(fetches, graph, session).elements
        if not elements:
            raise InvalidArgumentError(None, None, "A partial run must specify at least one "
                                       "target to fetch or execute.")
        fed = _tensors_to_feed(feeds, graph)
        with self._lock:
            session._check_usable()  # it may have been closed meanwhile
            step = self._plan(elements, fed)
            handle = f"{session._id}/partial-{next(self._numbers)}"
            self._runs[handle] = _PartialRun(step.open(), elements, fed)
        return handle

    def _plan(self, elements: list, feeds: list[Tensor]) -> Any:
        session = self._session
        key = (tuple(elements), tuple(feeds), session.graph._mutations, session._engine.version)
        if key not in self._plans:
            self._plans[key] = session._engine.compile(
                elements, feeds, session._remembered, session._id, incremental=True)
        return self._plans[key]

    def run(self, handle: Any, fetches: Any, feed_dict: Mapping | None) -> Any:
        """Continue the run `handle` with more feeds, and return the values of `fetches`."""
        run = self._runs.get(handle) if isinstance(handle, str) else None
        if run is None:
            raise InvalidArgumentError(None, None, f"There is no partial run {handle!r}: "
                                       "partial_run_setup makes one, and it ends when everything "
                                       "was fed and fetched, or when it failed.")
        session = self._session
        wanted = FetchMap(fetches, session.graph, session)
        try:
            values = run.advance(wanted.elements, flat_feeds(feed_dict or {}, session.graph),
                                 session._options.timeout)
        finally:
            if run.is_over():
                self._runs.pop(handle, None)
        return wanted.rebuild(values)

    def close(self) -> None:
        """Cancel what is under way."""
        with self._lock:
            runs, self._runs = self._runs, {}
            self._plans.clear()
        for run in runs.values():
            run.cancel()


def _tensors_to_feed(feeds: Sequence[Any], graph: Graph) -> list[Tensor]:
    found = [t for feed in feeds or () for t in fed_tensors(feed, graph)]
    return sorted(dict.fromkeys(found), key=lambda t: (t.op._id, t.value_index))


class _PartialRun:
    """One run: what was fed and fetched so far."""

    def __init__(self, opened: LocalRun, elements: list, feeds: list[Tensor]) -> None:
        self.opened = opened
        self.step = opened.step
        self.positions = {e: i for i, e in enumerate(elements)}
        self.feeds = {t: i for i, t in enumerate(feeds)}
        self.unfed = set(feeds)
        self.unfetched = set(elements)
        self.ended = False
        opened.start(None)

    def advance(self, wanted: list, fed: list[tuple[Tensor, Any]], timeout: float | None) -> list:
        """Feed, then wait for the `wanted` elements; nothing happens if an argument is wrong."""
        results, step = self.step.results, self.step
        if step.error is None:
            values = self._converted(fed)
            self._check_fetches(wanted, self.unfed - {t for t, _ in fed})
            for tensor, value in values:
                self.unfed.discard(tensor)
                step.feed(self.feeds[tensor], value)
        places = [self.positions.get(e, 0) for e in wanted]
        self.unfetched.difference_update(wanted)
        everything = not self.unfed and not self.unfetched
        # A run that failed, or of which nothing is left to ask, is waited for to its end.
        self.opened.wait(lambda: self.opened.finished() or not (
            everything or step.error or any(results[p] is MISSING for p in places)), timeout)
        self._end_once()
        return self._values(wanted, places)

    def _values(self, wanted: list, places: list[int]) -> list:
        values = [self.step.results[p] for p in places]
        check_results(self.step, [e.name for e in wanted], values)
        return [None if isinstance(e, Operation) else v for e, v in zip(wanted, values,
                                                                        strict=True)]

    def _converted(self, fed: list[tuple[Tensor, Any]]) -> list[tuple[Tensor, Any]]:
        for tensor, _ in fed:
            if tensor not in self.feeds:
                raise InvalidArgumentError(None, None, f"The feed '{tensor.name}' was not "
                                           "specified in partial_run_setup.")
            if tensor not in self.unfed:
                raise InvalidArgumentError(None, None, f"The feed '{tensor.name}' has already "
                                           "been fed.")
        return [(t, feed_converter(t)(v)) for t, v in fed]

    def _check_fetches(self, wanted: list, unfed: set[Tensor]) -> None:
        for element in wanted:
            if element not in self.positions:
                raise InvalidArgumentError(None, None, f"The fetch '{element.name}' was not "
                                           "specified in partial_run_setup.")
            if element not in self.unfetched:
                raise InvalidArgumentError(None, None, f"The fetch '{element.name}' has already "
                                           "been fetched.")
            missing = _needed_feed(element, unfed, self.feeds)
            if missing is not None:
                raise InvalidArgumentError(
                    None, None, f"The fetch '{element.name}' can't be computed from the feeds "
                    f"that have been fed so far: it needs '{missing.name}'.")

    def _end_once(self) -> None:
        if self.opened.finished() and not self.ended:
            self.ended = True
            self.opened.end()

    def is_over(self) -> bool:
        """True when the run can give nothing more."""
        return self.step.error is not None or not (self.unfed or self.unfetched)

    def cancel(self) -> None:
        """Give the run up."""
        if not self.opened.finished():
            self.opened.cancel(CancelledError(None, None, "The session of this partial run was "
                                              "closed"))
            self._end_once()


def _needed_feed(element: Tensor | Operation, unfed: set[Tensor],
                 feeds: dict[Tensor, int]) -> Tensor | None:
    """A tensor that is still to be fed and that `element` depends on, or None."""
    if not unfed:
        return None
    seen: set[Operation] = set()
    stack: list[Operation] = []

    def visit(tensor: Tensor) -> bool:
        if tensor in unfed:
            return True
        if tensor not in feeds:
            stack.append(tensor.op)
        return False

    if isinstance(element, Operation):
        stack.append(element)
    elif visit(element):
        return element
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        stack.extend(op._control_inputs)
        for tensor in op._inputs:
            if visit(tensor):
                return tensor
    return None
