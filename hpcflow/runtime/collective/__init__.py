"""Collective operations of steps: their schedule, their messages, their shared memory.

Begin reading with `collectives`.
"""
