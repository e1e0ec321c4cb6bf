"""Fuzzer of what hpcflow reads: graphs, checkpoints, records, images, examples, models, events.

    python tests/faults/fuzz.py graph-binary hdf5 --cases 5000 --seed 1
    python tests/faults/fuzz.py all --cases 2000

Every case damages something of a format and reads it as a program would. Right is a value, or an
error of the library's, a ValueError or a TypeError. Whatever else a case ends in (another
exception, a crash, more than 20 s of the processor or 200 s by the clock, hundreds of MiB for a
small file) is printed with the number by which ``--first N --cases 1`` repeats it; the exit status
is then 1.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import fuzz_checkpoints, fuzz_graphs, fuzz_images, fuzz_models, fuzz_records

FORMATS = {**fuzz_graphs.FORMATS, **fuzz_models.FORMATS, **fuzz_checkpoints.FORMATS,
           **fuzz_records.FORMATS, **fuzz_images.FORMATS}
#: Of the processor; by the clock, others on the machine make cases slow.
HANG_SECONDS, HANG_CLOCK_SECONDS = 20, 200
MEMORY_BYTES = 6 << 30
#: By so much the memory of the process may grow in a case. Graphs may well ask for more, and so may
#: the frames of a GIF file, which are as large as its canvas, however little is drawn in them.
LARGE_KIB = {name: 1 << 19 for name in FORMATS if name not in (*fuzz_graphs.FORMATS, "gif")}
#: Loading the library takes as long as a thousand cases of most formats.
CASES_OF_A_PROCESS = 5000


def work(name: str, first: int, count: int, seed: int) -> None:
    """Run cases in this process; a line for each that is not right, and one with the counts."""
    import logging

    import hpcflow as hf

    logging.disable(logging.CRITICAL)
    # After the stacks comes the signal's default action, which ends the process.
    faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        case = FORMATS[name](hf, Path(folder))
        with hf.Graph().as_default(), hf.Session() as session:
            session.run(hf.constant(0))  # loads what no case is to wait for
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        for number in range(first, first + count):
            print(f"at {number}", flush=True)
            signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
            faulthandler.dump_traceback_later(HANG_CLOCK_SECONDS, exit=True)
            before = _most_memory_kib()
            try:
                counts[case(random.Random(f"{name}/{seed}/{number}"))] += 1
            except (hf.errors.OpError, ValueError, TypeError) as e:
                counts[type(e).__name__] += 1
            except BaseException as e:  # noqa: BLE001  (this is what is looked for)
                where = traceback.extract_tb(e.__traceback__)[-1]
                print(f"wrong {number}: {type(e).__name__}: {str(e)[:200]!r} at {where.filename}:"
                      f"{where.lineno} in {where.name}", flush=True)
            grown = _most_memory_kib() - before
            if grown > LARGE_KIB.get(name, MEMORY_BYTES):
                print(f"wrong {number}: took {grown >> 10} MiB", flush=True)
            faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
    print(f"counts of {name}: " + " ".join(
        f"{k.replace(' ', '_')}={v}" for k, v in sorted(counts.items())), flush=True)


def _most_memory_kib() -> int:
    """The most virtual memory that this process has had; with it, claims count that nobody used."""
    with open("/proc/self/status") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("VmPeak")), 0)


def watch(name: str, first: int, count: int, seed: int) -> int:
    """Run cases in processes that may die; the number of those that were not right."""
    wrong, start, end, totals = 0, first, first + count, collections.Counter[str]()
    while first < end:
        child = subprocess.Popen(
            [sys.executable, __file__, name, "--work", "--first", str(first), "--cases",
             str(min(end - first, CASES_OF_A_PROCESS)), "--seed", str(seed)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
        out, err = child.communicate()
        at = first - 1
        for line in out.splitlines():
            if line.startswith("at "):
                at = int(line[3:])
            elif line.startswith("wrong "):
                wrong += 1
                print(f"{name}: {line}", flush=True)
            elif line.startswith("counts of "):
                totals.update({k: int(v) for k, _, v in (
                    p.partition("=") for p in line.partition(": ")[2].split())})
        if child.returncode:
            wrong += 1
            print(f"{name}: wrong {at}: the process ended with {child.returncode}:\n{err[-1500:]}",
                  flush=True)
            if at < first:
                break
        first = at + 1
    print(f"{name}: {first - start} cases of seed {seed}: {wrong} wrong; " + ", ".join(
        f"{k} {v}" for k, v in sorted(totals.items())), flush=True)
    return wrong


def main() -> int:
    """Run the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("formats", nargs="+", metavar="FORMAT", choices=[*FORMATS, "all"],
                        help="all, or some of " + ", ".join(FORMATS))
    parser.add_argument("--cases", type=int, default=1000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--work", action="store_true",
                        help="run the cases in this process, which may die; the status says it")
    args = parser.parse_args()
    names = list(FORMATS) if "all" in args.formats else args.formats
    if args.work:
        for name in names:
            work(name, args.first, args.cases, args.seed)
        return 0
    return int(sum([watch(name, args.first, args.cases, args.seed) for name in names]) > 0)


if __name__ == "__main__":
    sys.exit(main())
