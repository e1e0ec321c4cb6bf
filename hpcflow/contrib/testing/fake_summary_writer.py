"""A summary writer that keeps what it is given, for tests of programs that write summaries."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.summary import writer as writers
from hpcflow.test_util.graph_defs import assert_equal_graph_def

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.graph import Graph
    from hpcflow.graph.likes import TensorLike


class FakeSummaryWriter:
    """Keeps summaries, graphs and the rest instead of writing them to `logdir`.

    Between :meth:`install` and :meth:`uninstall` everything that asks for the writer of a directory
    gets one of these.
    """

    _replaced: Any = None

    @classmethod
    def install(cls) -> None:
        """Take the place of the writers that are shared; ``ValueError`` if it has it already."""
        if cls._replaced is not None:
            raise ValueError("FakeSummaryWriter already installed.")
        cls._replaced = writers.FileWriterCache.made_by
        writers.FileWriterCache.made_by = cls

    @classmethod
    def uninstall(cls) -> None:
        """Give the place back, and forget the writers made meanwhile."""
        if cls._replaced is None:
            raise ValueError("FakeSummaryWriter not installed.")
        writers.FileWriterCache.clear()
        writers.FileWriterCache.made_by = cls._replaced
        cls._replaced = None

    def __init__(self, logdir: str, graph: Graph | None = None) -> None:
        self._logdir, self._graph = logdir, graph
        self._summaries: dict[Any, list] = {}
        self._added_graphs: list[Graph] = []
        self._added_meta_graphs: list[Message] = []
        self._added_session_logs: list[Message] = []
        self._added_run_metadata: dict[str, Message] = {}

    @property
    def summaries(self) -> dict[Any, list]:
        """The ``Summary`` protobufs of each step."""
        return self._summaries

    def add_summary(self, summary: Any, current_global_step: TensorLike | None = None) -> None:
        """Keep a ``Summary``, or the bytes of one."""
        if isinstance(summary, bytes):
            summary = hf.Summary.FromString(summary)
        self._summaries.setdefault(current_global_step, []).append(summary)

    def add_graph(self, graph: Graph, global_step: TensorLike | None = None,
                  graph_def: Message | None = None) -> None:
        """Keep a graph; ``ValueError`` for a step or the old form, which it does not know."""
        if global_step is not None or graph_def is not None:
            raise ValueError("FakeSummaryWriter keeps graphs without steps, not GraphDefs")
        self._added_graphs.append(graph)

    def add_meta_graph(self, meta_graph_def: Message,
                       global_step: TensorLike | None = None) -> None:
        """Keep a ``MetaGraphDef``."""
        self._added_meta_graphs.append(meta_graph_def)

    def add_session_log(self, session_log: Message, global_step: TensorLike | None = None) -> None:
        """Keep a ``SessionLog``."""
        self._added_session_logs.append(session_log)

    def add_run_metadata(self, run_metadata: Message, tag: str,
                         global_step: TensorLike | None = None) -> None:
        """Keep the ``RunMetadata`` of a step under its tag."""
        self._added_run_metadata[tag] = run_metadata

    def flush(self) -> None:
        """Do nothing: nothing waits."""

    def reopen(self) -> None:
        """Do nothing: there is no file."""

    def close(self) -> None:
        """Do nothing: there is no file."""

    def assert_summaries(self, test_case: unittest.TestCase, expected_logdir: str | None = None,
                         expected_graph: Graph | None = None,
                         expected_summaries: dict | None = None,
                         expected_added_graphs: list | None = None,
                         expected_added_meta_graphs: list | None = None,
                         expected_session_logs: list | None = None) -> None:
        """Let a test fail unless what was added is as expected; None expects nothing in particular.

        `expected_summaries` has a dict from tags to numbers for each step; more may be there.
        """
        if expected_logdir is not None:
            test_case.assertEqual(expected_logdir, self._logdir)
        if expected_graph is not None:
            test_case.assertIs(expected_graph, self._graph)
        for step, tags in (expected_summaries or {}).items():
            self._assert_step(test_case, step, tags)
        for wanted, kept in ((expected_added_graphs, self._added_graphs),
                             (expected_session_logs, self._added_session_logs)):
            if wanted is not None:
                test_case.assertEqual(list(wanted), kept)
        if expected_added_meta_graphs is not None:
            test_case.assertEqual(len(expected_added_meta_graphs), len(self._added_meta_graphs))
            for expected, kept in zip(expected_added_meta_graphs, self._added_meta_graphs):
                assert_equal_graph_def(kept.graph_def, expected.graph_def)

    def _assert_step(self, test_case: unittest.TestCase, step: Any, tags: dict) -> None:
        test_case.assertIn(step, self._summaries)
        found = {value.tag: value.simple_value for summary in self._summaries[step]
                 for value in summary.value}
        for tag, value in tags.items():
            test_case.assertIn(tag, found)
            test_case.assertAlmostEqual(value, found[tag], places=5)
