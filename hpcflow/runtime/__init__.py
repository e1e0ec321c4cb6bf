"""Running steps: the executor, the event loop, sessions, tasks of a cluster, collectives.

May use all rooms below the public API. Begin reading with `session.session`, then
`executor.executor`.
"""
