"""Around the graph: ``app``, ``flags``, ``logging``, ``gfile`` and ``python_io`` of 1.x.

May use the graph, ops, storage and the runtime. Begin reading with `flags`.
"""
