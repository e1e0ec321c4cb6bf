"""Traces of steps over all ranks: reading, aligning, drawing and judging them.

`spans` reads what ran; `links` finds what belongs together, sends with their receives and the parts
of a collective; `clocks` aligns clocks by that; `chrome` draws; `summary` says why a step is slow.
"""
