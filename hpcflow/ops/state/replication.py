"""Modes of synchronization and aggregation of variables, accepted for compatibility.

There is one copy of every variable here, which its task keeps: the modes are kept with the
variable, and decide whether it is trained.
"""

from __future__ import annotations

import enum

__all__ = ["VariableAggregation", "VariableSynchronization"]


class VariableSynchronization(enum.Enum):
    """The times at which copies of a variable are synchronized."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """The methods of combining the values of a variable's copies."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = ONLY_FIRST_REPLICA  # its older name


def checked_replication(synchronization: VariableSynchronization | None,
                        aggregation: VariableAggregation | None, trainable: bool | None,
                        name: str | None) -> tuple:
    """(synchronization, aggregation, trainable), as they are where nothing was said.

    Raises ``ValueError`` for values of other types, and for a trained variable ON_READ.
    """
    synchronization = VariableSynchronization.AUTO if synchronization is None else synchronization
    aggregation = VariableAggregation.NONE if aggregation is None else aggregation
    for value, kind in ((synchronization, VariableSynchronization),
                        (aggregation, VariableAggregation)):
        if not isinstance(value, kind):
            raise ValueError(f"variable {name}: {value!r} is not a {kind.__name__}")
    on_read = synchronization is VariableSynchronization.ON_READ
    return synchronization, aggregation, not on_read if trainable is None else trainable
