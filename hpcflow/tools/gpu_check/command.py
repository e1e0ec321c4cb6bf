"""``python -m hpcflow gpu-check``: every stage in processes of its own, each with a limit.

What comes out is one JSON line per result in ``OUTPUT/results.jsonl``; ``--again`` repeats only
what failed there, into a file of its own. ``OUTPUT/rates.json`` has the rates of the GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from hpcflow.runtime.executor import gpus
from hpcflow.tools.cli import CommandError, CommandParser, command_parser, whole
from hpcflow.tools.gpu_check import rates
from hpcflow.tools.gpu_check.rehearsal import stand_in
from hpcflow.tools.gpu_check.results import Results, counts, failures, summary
from hpcflow.tools.gpu_check.stages import SHARED, STAGES, Asked


def parser() -> CommandParser:
    """The options of the command."""
    made = command_parser("gpu-check", "Check and time the library on a GPU.")
    made.add_argument("--stages", default=",".join(STAGES), help="of these: %(default)s")
    made.add_argument("--names", default="",
                      help="only these op types and cases of the benchmark, with commas")
    made.add_argument("--again", action="store_true", help="only what failed in results.jsonl")
    made.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")),
                      help="folder of the results ($OUT, else the working directory)")
    made.add_argument("--repo", type=Path, default=Path("."), help="the project's folder")
    made.add_argument("--workers", type=whole(1), default=max(1, (os.cpu_count() or 1) - 2),
                      help="processes that compare cases")
    made.add_argument("--stand-in", action="store_true",
                      help="on the stand-in of the tests: a rehearsal without a GPU")
    made.add_argument("--json", action="store_true",
                      help="print one JSON object: counts, seconds and failures of stages")
    made.add_argument("--inside", default="", help=argparse.SUPPRESS)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stages; 0 if nothing failed."""
    options = parser().parse_args(argv)
    if options.inside:
        return _run_inside(options)
    wanted = {stage: [n for n in options.names.split(",") if n]
              for stage in options.stages.split(",")}
    strange = wanted.keys() - STAGES.keys()
    if strange:
        raise CommandError(f"there is no stage {', '.join(sorted(strange))}; there are "
                           f"{', '.join(STAGES)}")
    reason = "" if options.stand_in else gpus.why_none()
    if reason:
        raise CommandError(f"{reason} (--stand-in rehearses the check without a GPU)")
    options.output.mkdir(parents=True, exist_ok=True)
    results = Results(options.output / "results.jsonl")
    if options.again:
        if not results.path.exists():
            raise CommandError(f"there is no {results.path} of an earlier check to repeat")
        failed = failures(results.rows())
        wanted = {stage: failed[stage] for stage in STAGES if stage in failed}
        results = Results(options.output / "results-again.jsonl")
    results.path.unlink(missing_ok=True)
    seconds = {stage: _run_stage(options, results, stage, names)
               for stage, names in wanted.items()}
    return _told(options, results, seconds)


def _told(options: argparse.Namespace, results: Results, seconds: dict[str, float]) -> int:
    """Say what came out, and keep the rates; 1 if something failed."""
    rows, path = results.rows(), options.output / "rates.json"
    measured, failed = rates.rates_of(rows), [r for r in rows if r.get("failed")]
    if measured is not None:
        rates.save(measured, path)
    if options.json:
        stages = counts(rows)
        print(json.dumps({
            "stages": {s: {**stages.get(s, {"results": 0, "failed": 0}), "seconds": round(t, 1)}
                       for s, t in seconds.items()},
            "failures": failed, "results": str(results.path),
            "rates": None if measured is None else str(path)}, indent=2))
        return int(bool(failed))
    print(summary(rows))
    if measured is not None:
        print(f"wrote {path}: the rates of this GPU, for 'simulate'")
    return int(bool(failed))


def _run_stage(options: argparse.Namespace, results: Results, stage: str,
               names: list[str]) -> float:
    """Start the stage's processes, and end those that take too long; the seconds it took."""
    workers = options.workers if stage in SHARED else 1
    began, limit = time.monotonic(), STAGES[stage][1]
    command = [sys.executable, "-m", "hpcflow", "gpu-check", "--output", str(results.path),
               "--repo", str(options.repo), "--names", ",".join(names)]
    command += ["--stand-in"] * options.stand_in
    started = [subprocess.Popen([*command, "--inside", f"{stage}:{i}:{workers}"])
               for i in range(workers)]
    for process in started:
        try:
            left = max(1.0, limit - (time.monotonic() - began))
            if process.wait(None if options.stand_in else left):  # a rehearsal is not about time
                results.put(stage, failed=f"the process ended with status {process.returncode}")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            results.put(stage, failed=f"took longer than its {limit:.0f} s")
    taken = time.monotonic() - began
    print(f"{stage}: {taken:.1f} s", flush=True, file=sys.stderr if options.json else sys.stdout)
    return taken


def _run_inside(options: argparse.Namespace) -> int:
    """In a process of its own: one stage, or one worker's part of it."""
    stage, share, shares = options.inside.split(":")
    asked = Asked(Results(options.output), options.repo.resolve(),
                  tuple(n for n in options.names.split(",") if n), int(share), int(shares),
                  options.stand_in)
    if options.stand_in:
        stand_in(asked.repo)
    try:
        STAGES[stage][0](asked)
    except Exception:  # noqa: BLE001  (a failure is a result)
        asked.results.put(stage, failed=traceback.format_exc()[-3000:])
    return 0
