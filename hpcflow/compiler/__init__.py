"""From a graph, fetches and feeds to executable steps: a visible list of passes.

``passes.py`` holds the list. Passes work on a light copy of the pruned graph (``ir.py``), so the
user's graph never changes.
"""
