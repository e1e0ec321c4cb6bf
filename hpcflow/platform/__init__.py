"""Around the graph: ``app``, ``flags``, ``logging``, ``gfile`` and ``python_io`` of 1.x."""
