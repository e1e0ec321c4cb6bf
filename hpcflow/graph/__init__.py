"""The one intermediate representation: Graph, Operation, Tensor, and the registry of op types."""
