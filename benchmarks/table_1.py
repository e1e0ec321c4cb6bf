"""Measure Table 1 and write it into a page: ``python benchmarks/table_1.py --peer torch=PYTHON``.

Runs ``hpcflow bench convnets`` beside the given peers, and puts its times into the page between the
two comments with the name of this table, with the machine, its load before, the threads and the
commit. The machine must be idle: nothing else may run on it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import commit

from hpcflow.tools import facts, table
from hpcflow.tools.bench.contestants import core_count
from hpcflow.tools.bench.kernels import FASTER

BEGIN, END = "<!-- table 1 -->", "<!-- end of table 1 -->"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "figures.md"
_WARM = "warm ms"  # without what is compiled in the background meanwhile


def measured(peers: list[str], quick: bool) -> dict[str, Any]:
    """The rows of the benchmark, and where they were measured."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "convnets.json"
        command = [sys.executable, "-m", "hpcflow", "bench", "convnets", "--json", str(path)]
        for peer in peers:
            command += ["--peer", peer]
        subprocess.run(command + ["--quick"] * quick, check=True)
        rows = json.loads(path.read_text())["convnets"]
    machine = facts.machine()
    return {"machine": f"{machine['processor']}, {machine['cores']} cores", "load": round(load, 1),
            "threads": core_count(), "commit": commit(), "rows": rows}


def markdown(made: dict[str, Any]) -> str:
    """The table with the line that says where it was measured."""
    programs = list(dict.fromkeys(row["program"] for row in made["rows"]))
    ratio = ["hpcflow over the faster one"] if len(programs) > 1 else []
    lines = [["network (images a step)", *(f"{p}, ms" for p in programs), *ratio]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    cases: dict[str, dict[str, Any]] = {}
    for row in made["rows"]:
        cases.setdefault(row["case"], {})[row["program"]] = row
    for case, found in cases.items():
        ours = next(iter(found.values()))
        lines.append([case, *(table.show(found[p][_WARM]) for p in programs),
                      *[table.show(ours.get("warm/faster") or ours.get(FASTER))] * len(ratio)])
    where = (f"Medians of warm steps in single precision on {made['machine']}, {made['threads']} "
             f"threads, load {made['load']} before, hpcflow {made['commit']}.")
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", where])


def put(text: str, page: Path) -> None:
    """Write the text between the comments; ValueError if the page has none."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the table: expected {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def main(argv: list[str] | None = None) -> int:
    """Measure, or read what was measured, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON",
                        help="as for hpcflow bench: tensorflow or torch, and a Python that has it")
    parser.add_argument("--page", type=Path, default=PAGE, help="to write into (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep what was measured here")
    parser.add_argument("--from", dest="rows", type=Path, metavar="FILE",
                        help="write what --out has kept")
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    options = parser.parse_args(argv)
    made = (json.loads(options.rows.read_text()) if options.rows else
            measured(options.peer, options.quick))
    if options.out:
        options.out.write_text(json.dumps(made, indent=1) + "\n")
    put(markdown(made), options.page)
    print(f"wrote the table into {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
