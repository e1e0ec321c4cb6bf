"""``bench convnets``: networks of 2012 to 2014, forward and as training steps, in single precision.

The networks of Table 1 of the OSDI paper on TensorFlow, on synthetic images: no dropout, no
normalization, no auxiliary classifiers, plain gradient descent. Every program runs in a process of
its own, hpcflow too, so that peak memory compares.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench.contestants import Peer, core_count
from hpcflow.tools.bench.kernels import FASTER
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, ratio_of
from hpcflow.tools.table import Row

#: The program of each contestant.
PROGRAMS = {OURS: "convnets", "torch": "convnets_torch", "tensorflow": "convnets"}

Layers = list[list[Any]]


class Network(NamedTuple):
    """A network: its batch, the height and width of its images, its layers.

    Layers: ``conv outputs window [stride padding]``, ``pool window stride [padding]``,
    ``mean window``, ``inception`` with six depths, ``dense outputs [relu]``.
    """

    name: str
    batch: int
    image: int
    layers: Layers


def _classifier(*widths: int) -> Layers:
    return [*(["dense", width] for width in widths), ["dense", 1000, False]]


def _vgg_block(*depths: int) -> Layers:
    return [*(["conv", depth, 3] for depth in depths), ["pool", 2, 2]]


_HALVE = ["pool", 3, 2, "SAME"]

NETWORKS = (
    # Krizhevsky, One weird trick for parallelizing convolutional neural networks (2014).
    Network("AlexNet", 32, 227, [
        ["conv", 64, 11, 4, "VALID"], ["pool", 3, 2], ["conv", 192, 5], ["pool", 3, 2],
        ["conv", 384, 3], ["conv", 256, 3], ["conv", 256, 3], ["pool", 3, 2],
        *_classifier(4096, 4096),
    ]),
    # Sermanet and others, OverFeat (2014), the fast model.
    Network("OverFeat", 8, 231, [
        ["conv", 96, 11, 4, "VALID"], ["pool", 2, 2], ["conv", 256, 5, 1, "VALID"],
        ["pool", 2, 2], ["conv", 512, 3], ["conv", 1024, 3], ["conv", 1024, 3], ["pool", 2, 2],
        *_classifier(3072, 4096),
    ]),
    # Simonyan and Zisserman, Very deep convolutional networks (2014), configuration A.
    Network("VGG-A", 4, 224, [
        *_vgg_block(64), *_vgg_block(128), *_vgg_block(256, 256), *_vgg_block(512, 512),
        *_vgg_block(512, 512), *_classifier(4096, 4096),
    ]),
    # Szegedy and others, Going deeper with convolutions (2014).
    Network("GoogLeNet v1", 16, 224, [
        ["conv", 64, 7, 2], _HALVE, ["conv", 64, 1], ["conv", 192, 3], _HALVE,
        ["inception", 64, 96, 128, 16, 32, 32], ["inception", 128, 128, 192, 32, 96, 64], _HALVE,
        ["inception", 192, 96, 208, 16, 48, 64], ["inception", 160, 112, 224, 24, 64, 64],
        ["inception", 128, 128, 256, 24, 64, 64], ["inception", 112, 144, 288, 32, 64, 64],
        ["inception", 256, 160, 320, 32, 128, 128], _HALVE,
        ["inception", 256, 160, 320, 32, 128, 128], ["inception", 384, 192, 384, 48, 128, 128],
        ["mean", 7], *_classifier(),
    ]),
)  # fmt: skip

# A step of a third of a second or more is a turn of its own.
_PLAN = Plan(rounds=4, block_seconds=0.5, min_samples=1)
_WARM = "warm/faster"


class Case(NamedTuple):
    """A network, and whether whole training steps are measured."""

    network: Network
    training: bool

    @property
    def title(self) -> str:
        """The title of its lines in the table."""
        what = "training step" if self.training else "forward"
        return f"{self.network.name} ({self.network.batch}), {what}"


def run(options: Options) -> list[Row]:
    """Measure networks, forward and training, with hpcflow and the peers in alternation."""
    plan = plan_of(options) if options.quick else _PLAN
    # The quick form takes the one of the fewest weights.
    networks = [NETWORKS[-1]._replace(batch=1)] if options.quick else NETWORKS
    cases = [Case(network, training) for network in networks for training in (False, True)]
    return [row for case in with_title(cases, options) for row in measure(case, options, plan)]


def measure(case: Case, options: Options, plan: Plan) -> list[Row]:
    """One row per program."""
    network = case.network
    details = {"batch": network.batch, "image": [network.image] * 2, "layers": network.layers,
               "training": case.training, "threads": core_count()}
    pythons = {OURS: sys.executable, **options.peers}
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Peer(name, python, PROGRAMS[name]))
                    for name, python in pythons.items()]
        with ThreadPoolExecutor() as starters:  # most of a case is the making of weights
            list(starters.map(lambda program: program.open(network.name, details), programs))
        rounds = alternate(programs, plan)
        for program in programs:
            program.warm(0.0 if options.quick else tuning.BENCH_WARMING_SECONDS)
        return rows_of(case.title, programs, rounds, alternate(programs, plan))


def rows_of(title: str, programs: Sequence[Peer], rounds: dict, warm: dict) -> list[Row]:
    """Milliseconds of the first steps and of `warm` ones, after what they compile in the background
    is compiled, and peak memory; the ratios are hpcflow's to the best of the others."""
    ours, *others = programs
    peaks = {p.name: p.peak_bytes() for p in programs}
    rows: list[Row] = []
    for program in programs:
        times = 1e3 * np.concatenate(rounds[program.name])
        rows.append({"case": title, "program": program.name, "median ms": float(np.median(times)),
                     "least ms": float(times.min()),
                     "warm ms": float(1e3 * np.median(np.concatenate(warm[program.name]))),
                     "peak MiB": peaks[program.name] / 2**20, FASTER: None, _WARM: None})
    for column, found in ((FASTER, rounds), (_WARM, warm)):
        ratios = [ratio_of(found[ours.name], found[p.name]) for p in others]
        rows[0][column] = max(ratios, default=None)
    return rows
