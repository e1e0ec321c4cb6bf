"""QueueRunner: threads that fill a queue while a program trains."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.base import program_log
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import add_to_collection, get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike
from hpcflow.metagraph.collection_protos import own_proto, register_proto_function
from hpcflow.runtime.session.session import BaseSession
from hpcflow.train.coordinator import Coordinator

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.operation import Operation


class QueueRunner:
    """Runs enqueue ops in threads, one thread each, and closes the queue when they end.

    Args:
        queue: the queue that is filled.
        enqueue_ops: ops to run again and again.
        close_op: op that closes the queue, leaving enqueues that wait.
        cancel_op: op that closes it and cancels them.
        queue_closed_exception_types: errors that mean the queue was closed, by default
            ``OutOfRangeError`` and ``CancelledError``... as raised by its own enqueue ops.
    """

    def __init__(self, queue: Any = None, enqueue_ops: list | None = None, close_op: Any = None,
                 cancel_op: Any = None, queue_closed_exception_types: tuple | None = None,
                 queue_runner_def: Message | None = None, import_scope: str | None = None) -> None:
        if queue_runner_def is not None:
            self._from_def(queue_runner_def, import_scope)
        else:
            if not queue or not enqueue_ops:
                raise ValueError("queue and enqueue_ops must be provided.")
            self._queue = queue
            self._enqueue_ops = list(enqueue_ops)
            self._close_op = close_op if close_op is not None else queue.close()
            self._cancel_op = cancel_op if cancel_op is not None else queue.close(
                cancel_pending_enqueues=True)
            self._name = queue.name
            self._queue_closed_exception_types = tuple(
                queue_closed_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    def _from_def(self, proto: Message, scope: str | None) -> None:
        from hpcflow.graph.graph import get_default_graph

        prefix = f"{scope}/" if scope else ""
        element = get_default_graph().as_graph_element
        self._name = prefix + proto.queue_name
        self._queue = element(self._name)
        self._enqueue_ops = [element(prefix + n) for n in proto.enqueue_op_name]
        self._close_op = element(prefix + proto.close_op_name)
        self._cancel_op = element(prefix + proto.cancel_op_name)
        kinds = [errors.exception_type_from_error_code(c)
                 for c in proto.queue_closed_exception_types]
        self._queue_closed_exception_types = tuple(kinds) or (errors.OutOfRangeError,)

    @property
    def queue(self) -> Any:
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self) -> list:
        """The ops that fill the queue."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """The op that closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """The op that closes the queue and cancels enqueues that wait."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple:
        """The errors that mean that the queue was closed."""
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """The exceptions of the threads that no coordinator received."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._name

    def create_threads(self, sess: SessionLike, coord: Coordinator | None = None,
                       daemon: bool = False, start: bool = False) -> list[threading.Thread]:
        """Make the threads that run the enqueue ops in `sess` (none if they run already).

        With a coordinator, errors go to it, and its stop cancels the queue. With `start` the
        threads run at once.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [threading.Thread(target=self._run, args=(sess, op, coord),
                                    name=f"QueueRunnerThread-{self._name}-{op.name}")
                   for op in self._enqueue_ops]
        if coord is not None:
            threads.append(threading.Thread(target=self._close_on_stop,
                                            args=(sess, self._cancel_op, coord),
                                            name=f"QueueRunnerThread-{self._name}-close_on_stop"))
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            thread.daemon = daemon
            if start:
                thread.start()
        return threads

    def _run(self, sess: SessionLike, enqueue_op: Operation,
             coord: Coordinator | None = None) -> None:
        counted = True
        try:
            run = _turns_of(sess)
            while coord is None or not coord.should_stop():
                try:
                    run(enqueue_op)
                except self._queue_closed_exception_types:
                    counted = self._one_less(sess)
                    return
        except Exception as e:
            if coord is None:
                program_log.error("Exception in QueueRunner: %s", e)
                self._exceptions_raised.append(e)
                raise
            coord.request_stop(e)
        finally:
            if counted:
                self._one_less(sess, close=False)

    def _one_less(self, sess: SessionLike, close: bool = True) -> bool:
        """One thread has ended; the last one closes the queue. Returns False: counted."""
        with self._lock:
            left = self._runs_per_session.get(sess, 1) - 1
            self._runs_per_session[sess] = left
        if left == 0 and close:
            try:
                sess.run(self._close_op)
            except errors.OpError as e:
                logging.getLogger("hpcflow").debug("Closing %s: %s", self._name, e)
        return False

    def _close_on_stop(self, sess: SessionLike, cancel_op: Operation, coord: Coordinator) -> None:
        coord.wait_for_stop()
        try:
            sess.run(cancel_op)
        except Exception as e:  # noqa: BLE001  (the session may be closed already)
            logging.getLogger("hpcflow").debug("Cancelling %s: %s", self._name, e)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The ``QueueRunnerDef`` protobuf; None when it is outside `export_scope`."""
        from hpcflow.base.formats.protos import message_class

        if export_scope and not self._name.startswith(export_scope + "/"):
            return None
        cut = len(export_scope) + 1 if export_scope else 0
        proto = message_class("QueueRunnerDef")()
        proto.queue_name = self._name[cut:]
        proto.enqueue_op_name.extend(op.name[cut:] for op in self._enqueue_ops)
        proto.close_op_name = self._close_op.name[cut:]
        proto.cancel_op_name = self._cancel_op.name[cut:]
        proto.queue_closed_exception_types.extend(
            errors.error_code_from_exception_type(t) for t in self._queue_closed_exception_types)
        return proto

    @staticmethod
    def from_proto(queue_runner_def: Message, import_scope: str | None = None) -> QueueRunner:
        """Make a runner from its protobuf, for the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def _turns_of(sess: SessionLike) -> Callable[[Operation], Any]:
    """What runs an operation again and again: ``sess.run``, or if that is the one of sessions, what
    may do so several times in one call."""
    run = sess.run  # which a wrapper may have taken over from the session itself
    if getattr(run, "__func__", None) is BaseSession.run:
        return run.__self__._run_turns  # type: ignore[attr-defined]
    return run


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add a runner to a collection of the default graph."""
    add_to_collection(collection, qr)


def start_queue_runners(sess: SessionLike | None = None, coord: Coordinator | None = None,
                        daemon: bool = True, start: bool = True,
                        collection: str = GraphKeys.QUEUE_RUNNERS) -> list[threading.Thread]:
    """Start the threads of all runners in a collection; returns them.

    `sess` defaults to the default session; ``ValueError`` if there is none, ``TypeError`` for what
    is no session. A ``MonitoredSession`` has started its threads itself: then there are none.
    """
    sess = sess or get_default_session()
    if sess is None:
        raise ValueError("Cannot start queue runners: No default session is registered. Use `with "
                         "sess.as_default()` or pass an explicit session to "
                         "hf.train.start_queue_runners(sess=sess)")
    if hasattr(sess, "should_stop"):
        return []
    if not hasattr(sess, "graph"):
        raise TypeError(f"'sess' must be a Session (`tf.Session`), not {sess!r}")
    threads: list[threading.Thread] = []
    with sess.graph.as_default():
        for runner in get_collection(collection):
            threads.extend(runner.create_threads(sess, coord, daemon, start))
    return threads


def _queue_runner_type() -> Any:
    from hpcflow.base.formats.protos import message_class

    return message_class("QueueRunnerDef")


def _queue_runner_from_proto(proto: Message, import_scope: str | None) -> QueueRunner:
    return QueueRunner.from_proto(proto, import_scope=import_scope)


register_proto_function(
    GraphKeys.QUEUE_RUNNERS, _queue_runner_type, own_proto, _queue_runner_from_proto)
