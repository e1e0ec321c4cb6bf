"""Helpers that families of ops share: sets of types, shapes of broadcasting and windows, grouping.

May use the graph. Begin reading with `type_sets`.
"""
