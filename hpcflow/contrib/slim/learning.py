"""``slim.learning``: the training operation of a loss, and the loop that runs it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.contrib.training.gradients import (
    USE_GLOBAL_STEP,
    add_gradients_summaries,
    clip_gradient_norms,
    multiply_gradients,
)
from hpcflow.contrib.training.gradients import create_train_op as _create_train_op
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import OperationLike, SessionLike, TensorHandle, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.common.grouping import group
from hpcflow.ops.io.lookup import tables_initializer
from hpcflow.ops.math.comparison import equal, greater_equal
from hpcflow.ops.state.variable_lists import local_variables_initializer
from hpcflow.optimizers import Optimizer
from hpcflow.optimizers.global_step import get_or_create_global_step
from hpcflow.platform import gfile, logging
from hpcflow.tools.timeline import Timeline
from hpcflow.train.supervisor import Supervisor
from hpcflow.train.sync_replicas import SyncReplicasOptimizer

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.graph import Graph

__all__ = ["add_gradients_summaries", "clip_gradient_norms", "create_train_op",
           "multiply_gradients", "train", "train_step"]

_USE_DEFAULT = 0  # of Supervisor: the argument was not given


def create_train_op(total_loss: TensorHandle, optimizer: Optimizer,
                    global_step: Any = USE_GLOBAL_STEP, update_ops: Any = None,
                    variables_to_train: list | None = None, clip_gradient_norm: float = 0,
                    summarize_gradients: bool = False, gate_gradients: int = Optimizer.GATE_OP,
                    aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                    gradient_multipliers: dict | None = None,
                    check_numerics: bool = True) -> Tensor:
    """Return the total loss after a step of training: an operation that runs the whole step.

    `gradient_multipliers`: variable or its name -> factor of its gradient; `clip_gradient_norm`:
    the largest norm of each gradient, 0 for any. Arguments otherwise as of
    ``contrib.training.create_train_op``.
    """
    def transform(pairs: list) -> list:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs

    return _create_train_op(total_loss, optimizer, global_step, update_ops, variables_to_train,
                            transform, summarize_gradients, gate_gradients, aggregation_method,
                            colocate_gradients_with_ops, check_numerics)


def train_step(sess: SessionLike, train_op: OperationLike, global_step: TensorLike,
               train_step_kwargs: dict) -> tuple[Any, bool]:
    """Run one step; returns the loss, and whether that was the last one.

    `train_step_kwargs` may hold ``should_stop``, ``should_log`` and ``should_trace``, tensors,
    ``logdir``, where traces go (``tf_trace-<step>.json``), and ``summary_writer``, which gets their
    metadata. Raises ``ValueError`` for ``should_trace`` without ``logdir``.
    """
    options, metadata = _messages_if_traced(sess, train_step_kwargs)
    started = time.perf_counter()
    loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    if metadata is not None:
        _write_trace(metadata, step, train_step_kwargs)
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss,
                     time.perf_counter() - started)
    stop = "should_stop" in train_step_kwargs and sess.run(train_step_kwargs["should_stop"])
    return loss, bool(stop)


def _messages_if_traced(session: SessionLike, arguments: dict) -> tuple[Any, Any]:
    """Return options and metadata of the next step, if it is to be traced."""
    if "should_trace" not in arguments:
        return None, None
    if "logdir" not in arguments:
        raise ValueError("logdir must be present in train_step_kwargs when should_trace is present")
    if not session.run(arguments["should_trace"]):
        return None, None
    from tensorboard.compat.proto.config_pb2 import RunMetadata, RunOptions

    return RunOptions(trace_level=RunOptions.FULL_TRACE), RunMetadata()


def _write_trace(metadata: Any, step: int, arguments: dict) -> None:
    path = os.path.join(arguments["logdir"], f"tf_trace-{step}.json")
    logging.info("Writing trace to %s", path)
    with gfile.Open(path, "w") as file:
        file.write(Timeline(metadata.step_stats).generate_chrome_trace_format())
    if arguments.get("summary_writer") is not None:
        arguments["summary_writer"].add_run_metadata(metadata, f"run_metadata-{step}")


def train(train_op: OperationLike, logdir: str | None, train_step_fn: Callable = train_step,
          train_step_kwargs: Any = _USE_DEFAULT, log_every_n_steps: int = 1,
          graph: Graph | None = None, master: str = "", is_chief: bool = True,
          global_step: TensorLike | None = None, number_of_steps: int | None = None,
          init_op: Any = _USE_DEFAULT, init_feed_dict: dict | None = None,
          local_init_op: Any = _USE_DEFAULT, init_fn: Callable | None = None,
          ready_op: Any = _USE_DEFAULT, summary_op: Any = _USE_DEFAULT,
          save_summaries_secs: float = 600, summary_writer: Any = _USE_DEFAULT,
          startup_delay_steps: int = 0, saver: Any = None, save_interval_secs: float = 600,
          sync_optimizer: Any = None, session_config: Message | None = None,
          session_wrapper: Callable | None = None, trace_every_n_steps: int | None = None,
          ignore_live_threads: bool = False) -> Any:
    """Run the training operation until it is to stop; returns the last loss.

    Args:
        train_op: gives the loss after a step, as of :func:`create_train_op`.
        logdir: where checkpoints and summaries go; None for nowhere.
        train_step_fn: runs one step, as :func:`train_step`.
        train_step_kwargs: its last argument; by default stops after `number_of_steps` and logs
            every `log_every_n_steps`.
        graph: the graph of the operation; the default one if None.
        master, is_chief: session target, and whether this task initializes and saves.
        global_step: counter of steps; that of the graph if None.
        number_of_steps: at most this many, the steps of earlier runs included; None for any number.
        startup_delay_steps: steps that a task that is not chief waits for before it begins.
        sync_optimizer: the ``SyncReplicasOptimizer`` that made the operation, or a list of them.
        session_config, session_wrapper: of the session.
        trace_every_n_steps: how often a step is traced, into ``tf_trace-<step>.json``.
        ignore_live_threads: do not mind threads that go on at the end.

    The others are those of ``train.Supervisor``. Raises ``ValueError`` for arguments that do not
    fit together.
    """
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None:
        _check_nothing_is_written(summary_op, saver, trace_every_n_steps)
        summary_op = None
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    graph = graph or get_default_graph()
    with graph.as_default():
        step = get_or_create_global_step() if global_step is None else global_step
        arguments = _step_arguments(train_step_kwargs, step, number_of_steps, log_every_n_steps,
                                    logdir, trace_every_n_steps if is_chief else None)
        options: dict = {} if saver is None and logdir is not None else {"saver": saver}
        start_tokens = None
        if sync_optimizer is not None:
            several = _optimizers(sync_optimizer)
            start_tokens = _token_start(several) if is_chief else None
            local_init_op = _local_init_of_replica(several, is_chief, local_init_op)
            options["ready_for_local_init_op"] = concat(  # the variables that are not ready
                [optimizer.ready_for_local_init_op for optimizer in several], 0)
    supervisor = Supervisor(
        graph, ready_op, is_chief=is_chief, init_op=init_op, init_feed_dict=init_feed_dict,
        local_init_op=local_init_op, logdir=logdir, summary_op=summary_op, global_step=step,
        save_summaries_secs=save_summaries_secs, save_model_secs=save_interval_secs,
        summary_writer=summary_writer if logdir is not None else None, init_fn=init_fn, **options)

    def start(session: SessionLike) -> None:
        if is_chief and logdir is not None:
            supervisor.start_standard_services(session)
        elif startup_delay_steps > 0:
            _wait_for_step(session, step, min(startup_delay_steps, number_of_steps or 2**62))
        supervisor.start_queue_runners(session)
        if start_tokens is not None:
            start_tokens(supervisor, session)

    if summary_writer is not None and supervisor.summary_writer is not None:
        arguments["summary_writer"] = supervisor.summary_writer
    with supervisor.managed_session(master, session_config, start_standard_services=False) as sess:
        session = session_wrapper(sess) if session_wrapper else sess
        start(session)
        loss = _train_until_stopped(
            supervisor, lambda: train_step_fn(session, train_op, step, arguments))
        if logdir and supervisor.is_chief:
            _save_and_stop(supervisor, session, ignore_live_threads)
    return loss


def _save_and_stop(supervisor: Supervisor, session: SessionLike, ignore_live_threads: bool) -> None:
    logging.info("Finished training! Saving model to disk.")
    supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
    supervisor.stop(close_summary_writer=False, ignore_live_threads=ignore_live_threads)


def _optimizers(given: Any) -> list[SyncReplicasOptimizer]:
    several = [given] if isinstance(given, SyncReplicasOptimizer) else list(given)
    if not all(isinstance(optimizer, SyncReplicasOptimizer) for optimizer in several):
        raise ValueError("`sync_optimizer` must be a train.SyncReplicasOptimizer.")
    return several


def _token_start(optimizers: list) -> Callable[[Supervisor, SessionLike], None]:
    """Return what starts the chief's part of synchronous training."""
    init_tokens = [optimizer.get_init_tokens_op() for optimizer in optimizers]
    queues = [optimizer.get_chief_queue_runner() for optimizer in optimizers]

    def start(supervisor: Supervisor, session: SessionLike) -> None:
        supervisor.start_queue_runners(session, queues)
        session.run(init_tokens)

    return start


def _local_init_of_replica(optimizers: list, is_chief: bool, local_init_op: Any) -> Any:
    """Return the op that initializes a replica's local state, with that of synchronous training."""
    if local_init_op == _USE_DEFAULT:
        local_init_op = group(local_variables_initializer(), tables_initializer())
    own = [optimizer.chief_init_op if is_chief else optimizer.local_step_init_op
           for optimizer in optimizers]
    return group(*own, *([] if local_init_op is None else [local_init_op]))


def _check_nothing_is_written(summary_op: Any, saver: Any, trace_every_n_steps: Any) -> None:
    if summary_op != _USE_DEFAULT and summary_op is not None:
        raise ValueError("Cannot provide summary_op because logdir=None")
    if saver is not None:
        raise ValueError("Cannot provide saver because logdir=None")
    if trace_every_n_steps is not None:
        raise ValueError("Cannot provide trace_every_n_steps because logdir=None")


def _train_until_stopped(supervisor: Supervisor, run_step: Callable) -> Any:
    """Run steps until one says that it was the last, or the input ends; returns the last loss."""
    loss = None
    try:
        while not supervisor.should_stop():
            loss, stop = run_step()
            if stop:
                logging.info("Stopping Training.")
                supervisor.request_stop()
                break
    except errors.OutOfRangeError as error:
        logging.info("Caught OutOfRangeError. Stopping Training. %s", error)
    return loss


def _step_arguments(given: Any, step: Any, number_of_steps: int | None, log_every_n_steps: int,
                    logdir: str | None, trace_every_n_steps: int | None) -> dict:
    """Return the keywords of the step function: those given, or when to stop and when to log."""
    if given != _USE_DEFAULT:
        return given or {}
    found: dict[str, Any] = {}
    if number_of_steps is not None:
        found["should_stop"] = greater_equal(step, number_of_steps)
    if log_every_n_steps > 0:
        found["should_log"] = equal(step % log_every_n_steps, 0)
    if trace_every_n_steps is not None:
        found["should_trace"] = equal(step % trace_every_n_steps, 0)
    found["logdir"] = logdir
    return found


def _wait_for_step(session: SessionLike, step: Any, wanted: int) -> None:
    while session.run(step) < wanted:
        time.sleep(1)
