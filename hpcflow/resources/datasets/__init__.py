"""Data sets as objects that can be gone over: sources, orders, batches, work done ahead.

May use nothing but level 0. Begin reading with `base`.
"""
