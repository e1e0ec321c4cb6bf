"""Compare a file of results with the bars: ``python benchmarks/check.py RESULTS.json``.

RESULTS.json is what ``python -m hpcflow bench NAME --json RESULTS.json`` wrote. A bar is the most
that hpcflow's time may be of another program's, or the most or least of another column. The status
is 1 if a bar that was measured is missed, or none was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

BARS = Path(__file__).with_name("bars.json")


def measured(results: dict, bar: dict) -> float | None:
    """The figure that a bar is about, None if it was not measured."""
    for row in results.get(bar["benchmark"], ()):
        if row["case"] == bar["case"] and row.get("program") == bar.get("program"):
            return row[bar.get("column", "hpcflow/it")]
    return None


def verdict(figure: float | None, bar: dict) -> str:
    """One word for a bar."""
    if figure is None:
        return "not measured"
    holds = figure <= bar["at_most"] if "at_most" in bar else figure >= bar["at_least"]
    return "held" if holds else "MISSED"


def main() -> int:
    """Print a line for each bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    results = json.loads(parser.parse_args().results.read_text())
    verdicts = []
    for bar in json.loads(BARS.read_text()):
        figure = measured(results, bar)
        verdicts.append(verdict(figure, bar))
        shown = "-" if figure is None else f"{figure:.3g}"
        against = f"against {bar['program']}" if "program" in bar else bar["column"]
        what = f"{bar['benchmark']}, {bar['case']}, {against}"
        limit = f"at most {bar['at_most']}" if "at_most" in bar else f"at least {bar['at_least']}"
        print(f"{what:62} {shown:>7}  {limit:13}  {verdicts[-1]}")
    return 1 if "MISSED" in verdicts or "held" not in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
