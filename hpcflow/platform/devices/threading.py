"""``hpcflow.config.threading``: threads of sessions that are given no config."""

from __future__ import annotations

from hpcflow.runtime.session.defaults import default_config, to_edit


def get_intra_op_parallelism_threads() -> int:
    """Return the threads within an op; 0 where the system chooses."""
    config = default_config()
    return 0 if config is None else config.intra_op_parallelism_threads


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set the threads within an op of the sessions made from now on."""
    to_edit().intra_op_parallelism_threads = num_threads


def get_inter_op_parallelism_threads() -> int:
    """Return the number of ops that run at once; 0 where the system chooses."""
    config = default_config()
    return 0 if config is None else config.inter_op_parallelism_threads


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Set the number of ops that run at once in the sessions made from now on."""
    to_edit().inter_op_parallelism_threads = num_threads
