"""What is printed: one line per op with the size of its error, the differences, the counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from case import Case
from compare import Verdict, judge
from exempt import EXEMPT

PROBLEMS_PER_OP = 4


class Report:
    """Collects verdicts.

    Args:
        ops: the registered ops, as the worker describes them.
        notes: also print notes.
    """

    def __init__(self, ops: dict, notes: bool) -> None:
        self.ops = ops
        self.notes = notes
        self.verdicts: dict[str, list[Verdict]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.extra: list[str] = []

    @property
    def failed(self) -> int:
        """How many cases failed."""
        return self.counts["failed"]

    def add(self, case: Case, ours: dict, theirs: dict) -> None:
        """Compare one case."""
        verdict = judge(case, ours, theirs)
        self.verdicts[case.op].append(verdict)
        self.counts[verdict.status] += 1

    def list_uncovered(self, cases: list[Case]) -> None:
        """Op types that have neither a case nor a reason why not fail, one by one; so do reasons
        for what has a case, or is no op type."""
        covered = {case.op for case in cases} | self.in_programs | set(EXEMPT)
        for op in sorted(set(self.ops) - covered):
            self._fail(f"{op}: has neither a case nor a reason in exempt.py")
        for op in sorted(set(EXEMPT) - set(self.ops)):
            self._fail(f"{op}: exempt, but no op type")

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
        print(f"{'op':36s} {'cases':>6s} {'unserved':>8s} {'failed':>7s} {'error/eps':>10s}")
        for op in sorted(self.verdicts):
            self._print_op(op, self.verdicts[op])
        for line in self.extra:
            print(line)
        counts = self.counts
        print(f"{counts['passed'] + counts['failed']} comparisons in {seconds:.0f} s; "
              f"{counts['unserved']} cases are of dtypes that the reference does not serve")
        print(f"{counts['passed']} passed, {counts['failed']} failed")

    def _print_op(self, op: str, verdicts: list[Verdict]) -> None:
        statuses = Counter(v.status for v in verdicts)
        error = max(v.error for v in verdicts)
        print(f"{op:36s} {len(verdicts):6d} {statuses['unserved']:8d} {statuses['failed']:7d} "
              f"{error:10.3g}")
        shown = 0
        for verdict in verdicts:
            lines = verdict.problems if shown < PROBLEMS_PER_OP else []
            shown += bool(lines)
            for text in lines:
                print(f"    FAILED {verdict.case.title}: {text}")
            for text in verdict.notes if self.notes else ():
                print(f"    note {verdict.case.title}: {text}")
