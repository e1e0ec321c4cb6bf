"""``contrib.training``: evaluation of checkpoints under hooks, once or as they come; training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.framework.session_run_hook import SessionRunArgs, SessionRunHook
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import OperationLike, SessionLike, TensorLike
from hpcflow.ops.state import state
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.global_step import get_or_create_global_step
from hpcflow.platform import logging
from hpcflow.summary import FileWriterCache, merge_all
from hpcflow.train.checkpoint_files import checkpoints_iterator
from hpcflow.train.hooks import FinalOpsHook
from hpcflow.train.monitored_session import MonitoredSession, MonitoredTrainingSession
from hpcflow.train.session_creators import ChiefSessionCreator

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.framework.session_run_hook import SessionRunContext, SessionRunValues
    from hpcflow.train.scaffold import Scaffold


def get_or_create_eval_step() -> Variable:
    """Return the variable that counts the steps of an evaluation, which is made if need be.

    Raises ``ValueError`` if the collection ``EVAL_STEP`` has several variables.
    """
    found = get_default_graph().get_collection(GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if found:
        return found[0]
    return get_variable("eval_step", shape=[], dtype="int64", initializer=Zeros(), trainable=False,
                        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP])


class StopAfterNEvalsHook(SessionRunHook):
    """Stops an evaluation after `num_evals` steps; without a number it only counts them."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals = num_evals
        self._log_progress = log_progress
        self._completed: Any = None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._completed = updated_eval_step

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the number of steps."""
        return SessionRunArgs({"evals_completed": self._completed})

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Ask to stop after the last step."""
        done = run_values.results["evals_completed"]
        if self._log_progress and self._num_evals is None:
            logging.info("Evaluation [%d]", done)
        elif self._log_progress:
            logging.info("Evaluation [%d/%d]", done, self._num_evals)
        if self._num_evals is not None and done >= self._num_evals:
            run_context.request_stop()


class SummaryAtEndHook(SessionRunHook):
    """Writes a summary at the end of a session, by `summary_writer` or to the directory `log_dir`,
    with the graph.

    Raises ``ValueError`` if there is neither.
    """

    def __init__(self, log_dir: str | None = None, summary_writer: Any = None,
                 summary_op: TensorLike | None = None, feed_dict: dict | None = None) -> None:
        if log_dir is None and summary_writer is None:
            raise ValueError("One of log_dir or summary_writer should be used.")
        self._log_dir = log_dir
        self._writer = summary_writer
        self._summary_op: Any = summary_op
        self._feed_dict = feed_dict

    def begin(self) -> None:
        """Find the summaries of the graph if no operation was given."""
        if self._summary_op is None:
            self._summary_op = merge_all()
        self._step = get_or_create_global_step()

    def after_create_session(self, session: SessionLike, coord: Any) -> None:
        """Open the file."""
        if self._writer is None and self._log_dir:
            self._writer = FileWriterCache.get(self._log_dir)

    def end(self, session: SessionLike) -> None:
        """Write the summary."""
        if self._summary_op is not None:
            step = int(session.run(self._step))
            text = session.run(self._summary_op, self._feed_dict)
            if self._writer is not None:
                self._writer.add_summary(text, step)
        if self._writer is not None:
            self._writer.flush()


def _with_count(eval_ops: Any, count: Any) -> Any:
    """`eval_ops`, in whatever form, and the count beside them."""
    if isinstance(eval_ops, dict):
        return {**eval_ops, "update_eval_step": count}
    return [*(eval_ops if isinstance(eval_ops, (list, tuple)) else [eval_ops]), count]


def evaluate_once(checkpoint_path: str | None, master: str = "", scaffold: Scaffold | None = None,
                  eval_ops: OperationLike | Sequence[Any] | dict | None = None,
                  feed_dict: dict | None = None, final_ops: Any = None,
                  final_ops_feed_dict: dict | None = None,
                  hooks: Sequence[SessionRunHook] | None = None,
                  config: Message | None = None) -> Any:
    """Restore a checkpoint, run `eval_ops` until a hook stops it; returns what `final_ops` give.

    Without `eval_ops` only the `final_ops` run.
    """
    count = state.assign_add(get_or_create_eval_step(), 1, use_locking=True)
    hooks = list(hooks or ())
    for hook in hooks:
        if isinstance(hook, StopAfterNEvalsHook):
            hook._set_evals_completed_tensor(count)
    last = FinalOpsHook(final_ops, final_ops_feed_dict)
    creator = ChiefSessionCreator(scaffold, master, config,
                                  checkpoint_filename_with_path=checkpoint_path)
    with MonitoredSession(creator, [*hooks, last]) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(_with_count(eval_ops, count), feed_dict)
    return last.final_ops_values


def evaluate_repeatedly(checkpoint_dir: str, master: str = "", scaffold: Scaffold | None = None,
                        eval_ops: OperationLike | Sequence[Any] | dict | None = None,
                        feed_dict: dict | None = None, final_ops: Any = None,
                        final_ops_feed_dict: dict | None = None, eval_interval_secs: float = 60,
                        hooks: Sequence[SessionRunHook] | None = None,
                        config: Message | None = None,
                        max_number_of_evaluations: int | None = None,
                        timeout: float | None = None,
                        timeout_fn: Callable[[], bool] | None = None) -> Any:
    """Evaluate each new checkpoint of a directory, see :func:`evaluate_once`.

    Ends after `max_number_of_evaluations`, or when `timeout` seconds brought no new checkpoint, and
    `timeout_fn`, if given, returns true. Returns what the `final_ops` gave last, as a dict.
    """
    values = None
    if max_number_of_evaluations is not None and max_number_of_evaluations <= 0:
        return values
    paths = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for done, path in enumerate(paths, 1):
        values = evaluate_once(path, master, scaffold, eval_ops, feed_dict, final_ops,
                               final_ops_feed_dict, hooks, config)
        if done == max_number_of_evaluations:
            break
    return values


def train(train_op: OperationLike, logdir: str | None, master: str = "", is_chief: bool = True,
          scaffold: Scaffold | None = None, hooks: Sequence[SessionRunHook] | None = None,
          chief_only_hooks: Sequence[SessionRunHook] | None = None,
          save_checkpoint_secs: float | None = 600, save_summaries_steps: int | None = 100,
          config: Message | None = None, max_wait_secs: int = 7200,
          run_metadata: Message | None = None) -> Any:
    """Run `train_op` in a monitored training session until a hook stops it; returns its last value.

    Without a `logdir` nothing is saved. Raises ``ValueError`` if there is no `logdir` and something
    is to be written all the same, or no hook that could stop the training.
    """
    if logdir is None and is_chief and (save_summaries_steps or save_checkpoint_secs):
        raise ValueError("logdir cannot be None when save_summaries_steps or save_checkpoint_secs "
                         "is set")
    loss = None
    with MonitoredTrainingSession(
            master=master, is_chief=is_chief, checkpoint_dir=logdir, scaffold=scaffold,
            hooks=list(hooks or ()), chief_only_hooks=list(chief_only_hooks or ()),
            save_checkpoint_secs=save_checkpoint_secs, save_summaries_steps=save_summaries_steps,
            config=config, max_wait_secs=max_wait_secs) as session:
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss
