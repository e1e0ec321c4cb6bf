"""``slim.evaluation``: metrics of a checkpoint, over a number of steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hpcflow.contrib.framework.variables import get_variables_to_restore
from hpcflow.graph.likes import OperationLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.io.lookup import tables_initializer
from hpcflow.ops.state.variable_lists import (
    global_variables_initializer,
    local_variables_initializer,
)
from hpcflow.optimizers.global_step import get_or_create_global_step
from hpcflow.runtime.session.session import Session
from hpcflow.summary import FileWriter
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.coordinator import Coordinator
from hpcflow.train.queue_runner import start_queue_runners
from hpcflow.train.saver import Saver

if TYPE_CHECKING:
    from google.protobuf.message import Message


def evaluate_once(master: str, checkpoint_path: str, logdir: str | None, num_evals: int = 1,
                  initial_op: Any = None, initial_op_feed_dict: dict | None = None,
                  eval_op: OperationLike | None = None, eval_op_feed_dict: dict | None = None,
                  final_op: OperationLike | None = None, final_op_feed_dict: dict | None = None,
                  summary_op: OperationLike | None = None, summary_op_feed_dict: dict | None = None,
                  variables_to_restore: list | None = None, session_config: Message | None = None,
                  hooks: object = None) -> Any:
    """Restore a checkpoint, run `eval_op` `num_evals` times; returns the value of `final_op`.

    `initial_op` runs before, after the local variables and tables are initialized; `summary_op`
    after, and is written to `logdir`.
    """
    step = get_or_create_global_step()
    saver = Saver(get_variables_to_restore() if variables_to_restore is None
                  else variables_to_restore)
    begin = [global_variables_initializer(), local_variables_initializer(), tables_initializer()]
    with Session(master, config=session_config) as session:
        session.run(begin, initial_op_feed_dict)
        saver.restore(session, checkpoint_path)
        coordinator = Coordinator()
        threads = start_queue_runners(session, coordinator)
        try:
            if initial_op is not None:
                session.run(initial_op, initial_op_feed_dict)
            for _ in range(num_evals if eval_op is not None else 0):
                session.run(eval_op, eval_op_feed_dict)
            if summary_op is not None and logdir:
                with FileWriter(logdir) as writer:
                    writer.add_summary(session.run(summary_op, summary_op_feed_dict),
                                       int(session.run(step)))
            return None if final_op is None else session.run(final_op, final_op_feed_dict)
        finally:
            coordinator.request_stop()
            coordinator.join(threads)


def evaluation_loop(master: str, checkpoint_dir: str, logdir: str | None, num_evals: int = 1,
                    initial_op: Any = None, initial_op_feed_dict: dict | None = None,
                    eval_op: OperationLike | None = None, eval_op_feed_dict: dict | None = None,
                    final_op: OperationLike | None = None, final_op_feed_dict: dict | None = None,
                    summary_op: Tensor | None = None, summary_op_feed_dict: dict | None = None,
                    variables_to_restore: list | None = None, eval_interval_secs: float = 60,
                    max_number_of_evaluations: int | None = None,
                    session_config: Message | None = None, timeout: float | None = None,
                    hooks: Any = None) -> Any:
    """Call :func:`evaluate_once` for each new checkpoint of a directory; returns the last value.

    Ends after `max_number_of_evaluations`, or when no new checkpoint came for `timeout` seconds.
    """
    last, done, value, since = None, 0, None, time.monotonic()
    while max_number_of_evaluations is None or done < max_number_of_evaluations:
        path = latest_checkpoint(checkpoint_dir)
        if path is None or path == last:
            if timeout is not None and time.monotonic() - since > timeout:
                break
            time.sleep(min(1.0, eval_interval_secs))
            continue
        started = since = time.monotonic()
        value = evaluate_once(
            master, path, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op,
            eval_op_feed_dict, final_op, final_op_feed_dict, summary_op, summary_op_feed_dict,
            variables_to_restore, session_config, hooks)
        last, done = path, done + 1
        if max_number_of_evaluations is None or done < max_number_of_evaluations:
            time.sleep(max(0.0, started + eval_interval_secs - time.monotonic()))
    return value
