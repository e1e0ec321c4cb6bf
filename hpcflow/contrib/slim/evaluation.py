"""``slim.evaluation``: metrics of a checkpoint, over a number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.contrib.training import evaluation
from hpcflow.contrib.training.evaluation import StopAfterNEvalsHook, SummaryAtEndHook
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.likes import OperationLike
from hpcflow.summary import merge_all
from hpcflow.train.checkpoint_files import checkpoints_iterator, wait_for_new_checkpoint
from hpcflow.train.saver import Saver
from hpcflow.train.scaffold import Scaffold

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["checkpoints_iterator", "evaluate_once", "evaluation_loop", "wait_for_new_checkpoint"]

_ALL_SUMMARIES = object()


def evaluate_once(master: str, checkpoint_path: str, logdir: str | None, num_evals: int = 1,
                  initial_op: Any = None, initial_op_feed_dict: dict | None = None,
                  eval_op: OperationLike | None = None, eval_op_feed_dict: dict | None = None,
                  final_op: OperationLike | None = None, final_op_feed_dict: dict | None = None,
                  summary_op: Any = _ALL_SUMMARIES, summary_op_feed_dict: dict | None = None,
                  variables_to_restore: list | None = None, session_config: Message | None = None,
                  hooks: Sequence[SessionRunHook] | None = None) -> Any:
    """Restore a checkpoint, run `eval_op` `num_evals` times; returns the value of `final_op`.

    `initial_op` initializes the model in the place of the global variables' initializers; the
    summaries, all of them by default, are written to `logdir` at the end.
    """
    return evaluation.evaluate_once(
        checkpoint_path, master,
        _scaffold(initial_op, initial_op_feed_dict, None, variables_to_restore), eval_op,
        eval_op_feed_dict, final_op, final_op_feed_dict,
        _hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks), session_config)


def evaluation_loop(master: str, checkpoint_dir: str, logdir: str | None, num_evals: int = 1,
                    initial_op: Any = None, initial_op_feed_dict: dict | None = None,
                    init_fn: Callable | None = None, eval_op: OperationLike | None = None,
                    eval_op_feed_dict: dict | None = None, final_op: OperationLike | None = None,
                    final_op_feed_dict: dict | None = None, summary_op: Any = _ALL_SUMMARIES,
                    summary_op_feed_dict: dict | None = None,
                    variables_to_restore: list | None = None, eval_interval_secs: float = 60,
                    max_number_of_evaluations: int | None = None,
                    session_config: Message | None = None, timeout: float | None = None,
                    timeout_fn: Callable[[], bool] | None = None,
                    hooks: Sequence[SessionRunHook] | None = None) -> Any:
    """Evaluate each new checkpoint of a directory as :func:`evaluate_once`; returns the last value.

    Ends after `max_number_of_evaluations`, or when no new checkpoint came for `timeout` seconds
    and `timeout_fn`, if given, returns true.
    """
    return evaluation.evaluate_repeatedly(
        checkpoint_dir, master,
        _scaffold(initial_op, initial_op_feed_dict, init_fn, variables_to_restore), eval_op,
        eval_op_feed_dict, final_op, final_op_feed_dict, eval_interval_secs,
        _hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks), session_config,
        max_number_of_evaluations, timeout, timeout_fn)


def _scaffold(initial_op: Any, feed_dict: dict | None, init_fn: Callable | None,
              variables_to_restore: list | None) -> Scaffold:
    saver = None if variables_to_restore is None else Saver(variables_to_restore)
    return Scaffold(init_op=initial_op, init_feed_dict=feed_dict, init_fn=init_fn, saver=saver)


def _hooks(num_evals: int, logdir: str | None, summary_op: Any, feed_dict: dict | None,
           hooks: Sequence[SessionRunHook] | None) -> list[SessionRunHook]:
    if summary_op is _ALL_SUMMARIES:
        summary_op = merge_all()
    found: list[SessionRunHook] = [StopAfterNEvalsHook(num_evals)]
    if summary_op is not None and logdir:
        found.append(SummaryAtEndHook(logdir, None, summary_op, feed_dict))
    return [*found, *(hooks or ())]
