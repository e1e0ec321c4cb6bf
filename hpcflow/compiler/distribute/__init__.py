"""Passes that place nodes on devices, cut the graph into parts, and fix their order.

Begin reading with `place`, then `partition` and `schedule`.
"""
