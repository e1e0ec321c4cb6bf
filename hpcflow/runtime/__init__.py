"""Running steps: the executor, the event loop, sessions, tasks of a cluster, collectives.

May use all rooms below the public API. Begin reading with `session.session`, then
`executor.executor`.
"""

from hpcflow.base import held_signals

held_signals.hold_in(__name__)
