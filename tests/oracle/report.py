"""What is printed: one line per op with the size of its error, the differences, the counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from case import Case
from compare import Moves, judge
from exempt import EXEMPT, UNDIFFERENTIATED

PROBLEMS_PER_OP = 4


@dataclass
class OfOp:
    """What came of the cases of one op type."""

    statuses: Counter[str] = field(default_factory=Counter)
    error: float = 0.0
    rounding: int = 0
    lines: list[str] = field(default_factory=list)
    shown: int = 0


class Report:
    """Collects verdicts, and prints the first failures of an op as they come.

    Args:
        ops: the registered ops, as the worker describes them.
        notes: also print notes.
    """

    def __init__(self, ops: dict, notes: bool) -> None:
        self.ops = ops
        self.notes = notes
        self.by_op: dict[str, OfOp] = defaultdict(OfOp)
        self.counts: Counter[str] = Counter()
        self.extra: list[str] = []
        self.doubtful: list[tuple[Case, dict, dict]] = []

    @property
    def failed(self) -> int:
        """How many cases failed."""
        return self.counts["failed"]

    def add(self, case: Case, ours: dict, theirs: dict, moves: Moves | None = None) -> None:
        """Compare one case; without `moves`, one that differs in floating values waits for them."""
        verdict = judge(case, ours, theirs, moves)
        if verdict.differs and moves is None:
            self.doubtful.append((case, ours, theirs))
            return
        of_op = self.by_op[case.op]
        of_op.statuses[verdict.status] += 1
        of_op.error = max(of_op.error, verdict.error)
        of_op.rounding += verdict.rounding and verdict.status == "passed"
        self.counts[verdict.status] += 1
        lines = []
        if of_op.shown < PROBLEMS_PER_OP:
            lines = [f"    FAILED {case.title}: {text}" for text in verdict.problems]
            of_op.shown += bool(lines)
        if lines and of_op.shown == 1:
            print("\n".join(lines), flush=True)
        if self.notes:
            lines += [f"    note {case.title}: {text}" for text in verdict.notes]
        of_op.lines += lines

    def list_uncovered(self, cases: list[Case]) -> None:
        """Op types that have neither a case nor a reason why not fail, one by one, and those whose
        gradient has none; so do reasons for what has a case, or is no op type."""
        elsewhere = self.in_programs | set(EXEMPT)
        for op in sorted(set(self.ops) - elsewhere - {case.op for case in cases}):
            self._fail(f"{op}: has neither a case nor a reason in exempt.py")
        with_gradients = {op for op, about in self.ops.items() if about["gradient"]}
        differentiated = {case.op for case in cases if case.gradient}
        for op in sorted(with_gradients - elsewhere - differentiated - set(UNDIFFERENTIATED)):
            self._fail(f"{op}: its gradient has neither a case nor a reason in exempt.py")
        for op in sorted(set(EXEMPT) - set(self.ops)):
            self._fail(f"{op}: exempt, but no op type")
        for op in sorted(set(UNDIFFERENTIATED) - with_gradients | set(UNDIFFERENTIATED)
                         & differentiated):
            self._fail(f"{op}: needs no reason why its gradient has no case")

    def _fail(self, problem: str) -> None:
        self.counts["failed"] += 1
        self.extra.append(problem)

    def add_programs(self, directory: Path) -> None:
        """Compare the programs, graphs and exchanges."""
        import programs

        self.in_programs = set()
        for name, problems, ops in programs.compare(directory):
            self.in_programs |= ops
            self.counts["failed" if problems else "passed"] += 1
            self.extra += [f"{name}: {problem}" for problem in problems]

    def close(self, seconds: float) -> None:
        """Print everything, ending with the line of counts."""
        print(f"{'op':36s} {'cases':>6s} {'unserved':>8s} {'failed':>7s} {'rounding':>8s} "
              f"{'error/eps':>10s}")
        for op, of_op in sorted(self.by_op.items()):
            counts = of_op.statuses
            print(f"{op:36s} {counts.total():6d} {counts['unserved']:8d} {counts['failed']:7d} "
                  f"{of_op.rounding:8d} {of_op.error:10.3g}")
            print(*of_op.lines, sep="\n", end="\n" if of_op.lines else "")
        for line in self.extra:
            print(line)
        counts = self.counts
        print(f"{counts['passed'] + counts['failed']} comparisons in {seconds:.0f} s; "
              f"{counts['unserved']} cases are of dtypes that the reference does not serve")
        print(f"{counts['passed']} passed, {counts['failed']} failed")
