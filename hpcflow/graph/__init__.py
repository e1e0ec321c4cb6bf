"""The one intermediate representation: Graph, Operation, Tensor, and the registry of op types.

Knows no particular op. Begin reading with `operation`, `graph`, then `build`.
"""
