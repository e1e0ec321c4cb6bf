"""Variables: their ops and classes, scopes, initializers, partitions.

May use the rooms of arrays, flow and random. Begin reading with `state` (ops), then `variables`
(the class).
"""
