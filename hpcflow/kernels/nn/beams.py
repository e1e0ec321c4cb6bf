"""Beams: sequences put together from the steps of a beam search."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from hpcflow.kernels import late_errors
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("GatherTree", fresh=True)
def _gather_tree(node: KernelNode) -> Any:
    xp = node.xp

    def run(symbols: Any, parents: Any, lengths: Any, end: Any) -> Any:
        if symbols.ndim != 3 or symbols.shape != parents.shape:
            raise invalid("step_ids and parent_ids must have the same shape [steps, batch, beams], "
                          f"got {shown(symbols)} and {shown(parents)}")
        if np.shape(lengths) != symbols.shape[1:2] or np.ndim(end):
            raise invalid("max_sequence_lengths must be a vector of the batch and end_token a "
                          f"scalar, got {shown(np.shape(lengths))} and {shown(np.shape(end))}")
        return _after_end(xp, _followed(xp, symbols, parents, lengths, end), end)

    return run


def _followed(xp: Any, symbols: Any, parents: Any, lengths: Any, end: Any) -> Any:
    """The symbols on the way back from each beam's last step to the first."""
    steps, batch, beams = symbols.shape
    rows = xp.arange(batch)[:, None]
    last = xp.minimum(lengths, steps)[:, None] - 1
    own = xp.broadcast_to(xp.arange(beams), (batch, beams))
    result = xp.empty_like(symbols)
    beam = own
    for step in reversed(range(steps)):
        beam = xp.where(step >= last, own, beam)
        there = step <= last
        wrong = ((beam < 0) | (beam >= beams)).any()
        error = functools.partial(invalid, f"a parent at step {step + 1} is not in [0, {beams})")
        if xp is not np:
            late_errors.note(xp, wrong, error)
        elif wrong:
            raise error()
        result[step] = xp.where(there, symbols[step, rows, beam], end)
        beam = xp.where(there, parents[step, rows, beam], own)
    return result


def _after_end(xp: Any, beams: Any, end: Any) -> Any:
    """Nothing but `end` behind the first one."""
    ended = xp.cumsum(beams == end, axis=0) > 0
    return xp.where(ended, end, beams)
