"""A bar of how far a loop is, with averages of what it reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import numpy as np

_UNITS = ((1.0, 1, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "us"))  # from how many seconds a step


class Progbar:
    """Writes a line of progress to the standard output.

    Args:
        target: the number of steps; None if unknown.
        width: characters of the bar.
        verbose: 1 for a bar, 2 for one line at the end, 0 for nothing.
        interval: least seconds between two bars.
        stateful_metrics: names whose last value is shown instead of the average over the steps.
        unit_name: what a step is called.
    """

    def __init__(self, target: int | None, width: int = 30, verbose: int = 1,
                 interval: float = 0.05, stateful_metrics: Iterable[str] | None = None,
                 unit_name: str = "step") -> None:
        self.target, self.width, self.verbose = target, width, verbose
        self.interval, self.unit_name = interval, unit_name
        self.stateful_metrics = set(stateful_metrics or ())
        self._sums: dict[str, tuple[float, int]] = {}
        self._seen, self._shown, self._longest = 0, 0.0, 0
        self._begun = time.time()

    def update(self, current: int, values: Iterable[tuple[str, float]] | None = None,
               force: bool = False, show: bool = True) -> None:
        """Note that `current` steps are done, and (name, value) pairs of the steps since.

        With `force` the bar is shown even if the last one is not `interval` old; without `show`
        nothing is.
        """
        steps = current - self._seen
        for name, value in values or ():
            before = self._sums.get(name, (0.0, 0))
            self._sums[name] = (value, 1) if name in self.stateful_metrics else (
                before[0] + value * steps, before[1] + steps)
        self._seen = current
        done = self.target is not None and current >= self.target
        if not show:
            return
        if self.verbose == 1:
            self._show_bar(current, done, force)
        elif self.verbose == 2 and done:
            passed = f" - {time.time() - self._begun:.0f}s"
            self._write(self._count(current) + passed + self._averages() + "\n")

    def add(self, n: int, values: Iterable[tuple[str, float]] | None = None,
            force: bool = False) -> None:
        """Note that `n` more steps are done."""
        self.update(self._seen + n, values, force)

    def _show_bar(self, current: int, done: bool, force: bool) -> None:
        now = time.time()
        early = now - self._shown < self.interval and self.target is not None
        if early and not (done or force):
            return
        self._shown = now
        line = self._count(current) + self._bar(current) + self._timing(now, current, done)
        line += self._averages()
        self._write("\r" + line.ljust(self._longest) + ("\n" if done else ""))
        self._longest = len(line)

    def _count(self, current: int) -> str:
        if self.target is None:
            return f"{current:7d}/Unknown"
        return f"{current:{len(str(self.target))}d}/{self.target}"

    def _bar(self, current: int) -> str:
        if not self.target:
            return ""
        full = min(self.width, self.width * current // self.target)
        end = ">" if current < self.target else "="
        return f" [{('=' * (full - 1) + end) if full else ''}{'.' * (self.width - full)}]"

    def _timing(self, now: float, current: int, done: bool) -> str:
        passed = now - self._begun
        each = passed / current if current else 0.0
        if self.target is not None and not done:
            return f" - ETA: {_duration(each * (self.target - current))}"
        factor, unit = next((f, u) for least, f, u in _UNITS if each >= least)
        return f" - {passed:.0f}s {each * factor:.0f}{unit}/{self.unit_name}"

    def _averages(self) -> str:
        means = {name: np.mean(total) / max(1, count)
                 for name, (total, count) in self._sums.items()}
        return "".join(f" - {name}: {mean:{'.4f' if abs(mean) > 1e-3 else '.4e'}}"
                       for name, mean in means.items())

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    if seconds > 3600:
        return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}" if seconds > 60 else f"{rest}s"
