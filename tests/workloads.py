"""The examples that are workloads of the papers, and what each must reach.

``python tests/workloads.py`` runs them whole, alone and on ranks (``make examples``); the job ring
runs each in a small form, see ``job_ring/examples/test_workloads.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Workload(NamedTuple):
    """An example, and the number at the end of the last line that the first rank prints.

    `small` are its arguments in the job ring, with the options of ``hpcflow run`` before a colon if
    it runs on ranks there. `whole` are its arguments alone, `ranks` the options on ranks, where it
    takes the same arguments. The number is at most or at least the bound, by its sign.
    """

    name: str
    small: str
    small_bound: float
    ranks: str
    whole: str
    whole_bound: float


WORKLOADS = [
    Workload("figure_1", "-n 2:--steps 400", 0.9, "-n 2", "", 0.98),
    Workload("power_method", "-n 2:--size 60", -1e-8, "-n 3", "", -1e-8),
    Workload("digits_softmax", "--model cnn --steps 300", 0.9, "-n 2", "--model cnn", 0.93),
    Workload("digits_softmax", "--model softmax --steps 300", 0.8, "-n 2", "--model softmax", 0.86),
    Workload("cifar_cnn", "--width 8 --steps 120 --batch 32", 0.5, "-n 2", "--steps 200", 0.9),
    Workload("convnets", "--model alexnet --width 0.1 --side 64 --rate 1e-3", -0.7, "-n 2",
             "--model alexnet --side 128 --batch 8", -0.9),
    Workload("convnets", "--model overfeat --width 0.1 --side 96 --rate 1e-3 --batch 8", -0.7,
             "-n 2", "--model overfeat --side 128 --batch 4 --steps 10", -0.9),
    Workload("convnets", "--model vgg --width 0.1 --side 32 --rate 1e-3", -0.7, "-n 2",
             "--model vgg --side 64 --batch 4 --steps 10", -0.9),
    Workload("convnets", "--model googlenet --width 0.1 --side 32 --rate 1e-3", -0.7, "-n 2",
             "--model googlenet --side 128 --batch 8", -0.9),
    Workload("inception_v3", "--width 0.05 --side 75 --batch 4 --steps 12", -6.5, "-n 3 --ps 1",
             "--width 0.25 --side 139 --steps 20", -4.0),
    Workload("resnet", "--blocks 1 --steps 60 --side 16", 0.6, "-n 2", "", 0.9),
    Workload("language_model", "-n 3 --ps 2:--words 200 --units 32 --steps 150", -60, "-n 4 --ps 2",
             "", -12),
    Workload("language_model", "--softmax sampled --words 200 --units 32 --steps 150", -100,
             "-n 4 --ps 2", "--softmax sampled", -100),
    Workload("seq2seq", "-n 2:--units 16 --steps 40 --words 8", 0.2, "-n 2", "", 0.9),
    Workload("word2vec", "-n 3 --ps 1:--words 100 --size 16 --steps 1000", 0.8, "-n 3 --ps 1", "",
             0.75),
    Workload("wide_deep", "-n 3 --ps 2:--steps 300", 0.7, "-n 4 --ps 2", "", 0.82),
    Workload("dqn", "--moves 2500", 40, "-n 3 --ps 1", "", 80),
    Workload("clusters", "-n 2:--points 6000", 0.95, "-n 3", "", 0.97),
    Workload("gan", "--steps 1500 --batch 32", 2.5, "-n 2", "--steps 2000", 3),
    Workload("stumps", "-n 2:--stumps 30", 0.9, "-n 3", "", 0.93),
    Workload("heat_surrogate", "-n 2:--side 48 --leaps 100", -0.85, "-n 3", "", -0.6),
]


def command_of(name: str, arguments: str, launch: str, logs: Path | str) -> list[str]:
    """The command line of an example, alone or by ``hpcflow run`` with the options `launch`."""
    program = [f"examples/{name}.py", *arguments.split()]
    if not launch:
        return [sys.executable, *program]
    return [sys.executable, "-m", "hpcflow", "run", "--logs", str(logs), *launch.split(), *program]


def last_number(output: str) -> float:
    """The number at the end of the last line."""
    return float(output.strip().splitlines()[-1].rpartition(": ")[2].split()[0])


def holds(number: float, bound: float) -> bool:
    """True if the number is at least the bound, or at most the opposite of a negative one."""
    return number >= bound if bound > 0 else number <= -bound


def main() -> int:
    """Run all whole, or those that are named; return 1 if one misses its bound."""
    wanted, missed = set(sys.argv[1:]), 0
    for work in WORKLOADS:
        for launch in ("", work.ranks) if not wanted or work.name in wanted else ():
            title = f"{work.name} {work.whole}".strip() + (f"   ({launch})" if launch else "")
            print(f"== {title}", flush=True)
            begun = time.perf_counter()
            with tempfile.TemporaryDirectory() as logs:
                done = subprocess.run(command_of(work.name, work.whole, launch, logs), cwd=ROOT,
                                      stdout=subprocess.PIPE, text=True, check=False,
                                      stdin=subprocess.DEVNULL, env=dict(os.environ))
            print(done.stdout.strip(), flush=True)
            good = done.returncode == 0 and holds(last_number(done.stdout), work.whole_bound)
            missed += not good
            print(f"{'reached' if good else 'MISSED'} in {time.perf_counter() - begun:.0f} s\n",
                  flush=True)
    print(f"{missed} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
