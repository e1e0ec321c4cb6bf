"""Counterparts of ``python.framework`` of 1.x: functions, nests, cluster specifications, hooks of
sessions.

May use the graph and ops. Begin reading with `function`.
"""
