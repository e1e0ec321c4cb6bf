"""Fair timing: contestants run in alternation, block by block, and are compared round by round."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpcflow.host.tuning import loops as tuning
from hpcflow.loops import compiling
from hpcflow.tools.bench.contestants import Contestant, Local, Peer
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.table import Row

OURS = "hpcflow"
Rounds = dict[str, list[list[float]]]


@dataclass(frozen=True)
class Plan:
    """The amount of measuring: rounds, and the lengths of turns and samples.

    Attributes:
        rounds: how often each contestant has its turn.
        block_seconds: how long a turn lasts.
        sample_seconds: shorter steps are timed in batches that last this long.
        max_samples: the most samples of a turn.
        min_samples: the least, however long a step takes.
        seconds: no round begins after so long; the first always does.
    """

    rounds: int = 11
    block_seconds: float = 0.15
    sample_seconds: float = 20e-6
    max_samples: int = 2000
    min_samples: int = 3
    seconds: float = math.inf


def plan_of(options: Options) -> Plan:
    """The plan that the command line asks for."""
    if options.quick:
        return Plan(rounds=2, block_seconds=0.002, max_samples=5, min_samples=1)
    return Plan()


def calibrate(contestant: Contestant, plan: Plan) -> tuple[int, int]:
    """Return the samples of a turn and the steps of a batch; warm up the program and the caches."""
    count, limit = 1, plan.block_seconds / 10
    seconds = contestant.block(2, 1)[-1]
    if seconds < limit:  # then the second was no more than a warming either
        while (seconds := contestant.block(1, count)[0]) * count < limit:
            count *= 4
    batch = max(1, round(plan.sample_seconds / seconds))
    samples = int(plan.block_seconds / (seconds * batch))
    return max(plan.min_samples, min(plan.max_samples, samples)), batch


def until_compiled(ours: Contestant, plan: Plan) -> None:
    """Run steps until the loops that they are worth are compiled, also those that only come with
    steps for certain shapes. A plan that only shows that it runs does not wait."""
    for _ in range(2 if compiling.enabled() and plan.min_samples > 1 else 0):
        end = time.perf_counter() + 10 * tuning.COMPILE_WORTH_SECONDS
        while time.perf_counter() < end:
            ours.block(1, 1)
        compiling.wait()


def alternate(contestants: Sequence[Contestant], plan: Plan) -> Rounds:
    """Name -> its samples by round. Every second round goes in the other order."""
    end = time.perf_counter() + plan.seconds
    sizes = {c.name: calibrate(c, plan) for c in contestants}
    rounds: Rounds = {c.name: [] for c in contestants}
    for number in range(plan.rounds):
        if number and time.perf_counter() > end:
            break
        for contestant in contestants if number % 2 == 0 else reversed(contestants):
            samples, batch = sizes[contestant.name]
            # The one before has cooled the caches: a few steps do not count, except where a step
            # is so long that it does not matter.
            if samples > 1:
                contestant.block(max(1, samples // 20), batch)
            rounds[contestant.name].append(contestant.block(samples, batch))
    return rounds


def measured(ours: Local, others: Sequence[Contestant], peers: Sequence[Peer],
             plan: Plan) -> Rounds:
    """The samples of `ours`, once its loops are compiled, and `others`; then the case is closed,
    also at the `peers`."""
    try:
        until_compiled(ours, plan)
        return alternate([ours, *others], plan)
    finally:
        ours.close()
        for peer in peers:
            peer.close_case()


def rows_of(case: str, rounds: Rounds) -> list[Row]:
    """One row per contestant: microseconds, and the ratio of hpcflow's time to the contestant's."""
    return [{"case": case, "program": name, **_summary(rounds, name)} for name in rounds]


def with_busy(rows: list[Row], programs: Sequence[Peer | Local]) -> list[Row]:
    """`rows` with the processors' time of a step, which other programs on the machine disturb less:
    the least of all blocks, and the ratio of hpcflow's to it."""
    return _with_least(rows, {p.name: 1e6 * min(p.busy) for p in programs}, "busy")


def with_least(rows: list[Row], rounds: Rounds) -> list[Row]:
    """`rows` with the least time of a step, and the ratio of hpcflow's to it."""
    return _with_least(rows, {name: 1e6 * min(map(min, found)) for name, found in rounds.items()},
                       "least")


def _with_least(rows: list[Row], least: Mapping[str, float], what: str) -> list[Row]:
    ours = least[OURS]
    return [row | {f"{what} us": least[name],
                   f"{what}/it": None if name == OURS else ours / max(least[name], 1e-3)}
            for row in rows if (name := str(row["program"]))]


def _summary(rounds: Rounds, name: str) -> Row:
    pooled = 1e6 * np.concatenate(rounds[name])
    p10, median, p90 = (float(p) for p in np.percentile(pooled, (10, 50, 90)))
    ratio = None
    if name != OURS and OURS in rounds:
        ratio = ratio_of(rounds[OURS], rounds[name])
    return {"median_us": median, "p10_us": p10, "p90_us": p90, "hpcflow/it": ratio}


def ratio_of(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """The median over rounds of the ratio of the two medians of a round."""
    return float(np.median([np.median(a) / np.median(b) for a, b in zip(ours, theirs)]))
