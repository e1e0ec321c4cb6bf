"""Beams: sequences put together from the steps of a beam search."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("GatherTree", device="CPU", fresh=True)
def _gather_tree(node: KernelNode) -> Any:
    def run(symbols: Any, parents: Any, lengths: Any, end: Any) -> Any:
        if symbols.ndim != 3 or symbols.shape != parents.shape:
            raise invalid("step_ids and parent_ids must have the same shape [steps, batch, beams], "
                          f"got {shown(symbols)} and {shown(parents)}")
        if np.shape(lengths) != symbols.shape[1:2] or np.ndim(end):
            raise invalid("max_sequence_lengths must be a vector of the batch and end_token a "
                          f"scalar, got {shown(np.shape(lengths))} and {shown(np.shape(end))}")
        return _after_end(_followed(symbols, parents, lengths, end), end)

    return run


def _followed(symbols: Any, parents: Any, lengths: Any, end: Any) -> Any:
    """The symbols on the way back from each beam's last step to the first."""
    steps, batch, beams = symbols.shape
    rows = np.arange(batch)[:, None]
    last = np.minimum(lengths, steps)[:, None] - 1
    own = np.broadcast_to(np.arange(beams), (batch, beams))
    result = np.full(symbols.shape, end, symbols.dtype)
    beam = own
    for step in reversed(range(steps)):
        beam = np.where(step >= last, own, beam)
        there = step <= last
        if ((beam < 0) | (beam >= beams)).any():
            raise invalid(f"a parent at step {step + 1} is not in [0, {beams})")
        result[step] = np.where(there, symbols[step, rows, beam], end)
        beam = np.where(there, parents[step, rows, beam], own)
    return result


def _after_end(beams: Any, end: Any) -> Any:
    """Nothing but `end` behind the first one."""
    ended = np.logical_or.accumulate(beams == end, axis=0)
    beams[ended] = end
    return beams
