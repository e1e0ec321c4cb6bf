"""Compare a file of results with the bars: ``python benchmarks/check.py RESULTS.json``.

RESULTS.json is what ``python -m hpcflow bench NAME --json RESULTS.json`` wrote. A bar is the most
that hpcflow's time may be of another program's. The status is 1 if a bar that was measured is
missed, or none was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

BARS = Path(__file__).with_name("bars.json")


def measured(results: dict, bar: dict) -> float | None:
    """The ratio that a bar is about, None if it was not measured."""
    for row in results.get(bar["benchmark"], ()):
        if row["case"] == bar["case"] and row["program"] == bar["program"]:
            return row["hpcflow/it"]
    return None


def verdict(ratio: float | None, at_most: float) -> str:
    """One word for a bar."""
    if ratio is None:
        return "not measured"
    return "held" if ratio <= at_most else "MISSED"


def main() -> int:
    """Print a line for each bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    results = json.loads(parser.parse_args().results.read_text())
    verdicts = []
    for bar in json.loads(BARS.read_text()):
        ratio = measured(results, bar)
        verdicts.append(verdict(ratio, bar["at_most"]))
        shown = "-" if ratio is None else f"{ratio:.3g}"
        what = f"{bar['benchmark']}, {bar['case']}, against {bar['program']}"
        print(f"{what:62} {shown:>7}  at most {bar['at_most']:<5}  {verdicts[-1]}")
    return 1 if "MISSED" in verdicts or "held" not in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
