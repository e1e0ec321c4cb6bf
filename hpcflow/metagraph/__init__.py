"""MetaGraphs: a graph with its collections as one protobuf; importing and exporting scopes.

Below `train` and `summary`, which both need it. Begin reading with `meta_graph`.
"""
