"""Training loops that update masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.slim import learning
from hpcflow.graph.likes import OperationLike


def train(train_op: OperationLike, logdir: str | None, mask_update_op: OperationLike,
          train_step_fn: Callable = learning.train_step, **options: Any) -> Any:
    """Train as ``slim.learning.train`` does, and update the masks after each step.

    Args:
        train_op, logdir, train_step_fn, options: as of ``slim.learning.train``.
        mask_update_op: what :meth:`Pruning.mask_update_op` returns, or the conditional one.
    """
    def step(session: Any, operation: Any, global_step: Any, arguments: Any) -> tuple[Any, Any]:
        result = train_step_fn(session, operation, global_step, arguments)
        session.run(mask_update_op)
        return result

    return learning.train(train_op, logdir, train_step_fn=step, **options)
