"""What the 1.x API keeps under ``python.framework``: functions, nests, cluster specifications,
hooks of sessions.

May use the graph and ops. Begin reading with `function`.
"""
