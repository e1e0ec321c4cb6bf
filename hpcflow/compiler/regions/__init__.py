"""Which nodes run as one, and as what program: regions, their control flow, their lines.

Begin reading with `regions`, then `structurize` and `lower`.
"""
