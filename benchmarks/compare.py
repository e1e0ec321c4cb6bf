"""Compare two files of results: ``python benchmarks/compare.py BEFORE.json AFTER.json``.

Both come from ``python -m hpcflow bench NAME --json FILE``, before and after a change, on one
machine. Where another program ran beside hpcflow, its ratio is compared: the machine's speed
cancels in it. Otherwise it is the median time, in which the machine counts too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def figures(results: dict) -> dict[tuple[str, str, str], float]:
    """(benchmark, case, what) -> figure."""
    found = {}
    for name, rows in results.items():
        for row in rows:
            if "program" not in row:
                continue
            ratio = row.get("hpcflow/it")
            if ratio is not None:
                found[name, row["case"], f"time / {row['program']}'s"] = ratio
            elif row["program"] == "hpcflow":
                found[name, row["case"], "median us"] = row["median_us"]
    return found


def main() -> None:
    """Print a line for each figure that is in both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    arguments = parser.parse_args()
    before = figures(json.loads(arguments.before.read_text()))
    after = figures(json.loads(arguments.after.read_text()))
    for key, old in before.items():
        if key in after:
            new = after[key]
            print(f"{', '.join(key):74} {old:10.3g} -> {new:10.3g}  {new / old - 1:+8.1%}")


if __name__ == "__main__":
    main()
