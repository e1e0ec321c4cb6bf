"""The strategies of a ``RunConfig``."""

from __future__ import annotations

from typing import Any, NamedTuple


class DistributeConfig(NamedTuple):
    """The strategies of an estimator, for ``RunConfig(experimental_distribute=...)``.

    Attributes:
        train_distribute: the :class:`Strategy` of training, or None.
        eval_distribute: that of evaluations, or None.
        remote_cluster: None: the ranks are those of the job (``RunConfig`` refuses another value).
    """

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None
