"""From a graph, fetches and feeds to executable steps: a visible list of passes.

`passes` holds the list; `ir` is the form that they change, a light copy of the pruned graph, so the
user's graph never changes. May use the graph and the registry of kernels.
"""
