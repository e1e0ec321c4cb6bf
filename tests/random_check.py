"""Compare what random graphs give in all forms: with NumPy, and with each other.

``python tests/random_check.py --first 1000 --count 5000`` checks that many graphs more than the
tests do; a graph is known by its seed, and ``--first SEED --count 1`` checks it alone.
``--some`` takes two of the forms of each graph, others for the next, and ``--largest`` smaller
graphs, which makes thousands of them a matter of minutes. Under mpirun, ``--ranks``
spreads the graphs over the tasks of the ranks instead of a cluster in this process: every rank is
the master of its share of the seeds, all at the same time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from random_graphs import RandomGraph

import hpcflow as hf
from hpcflow import config
from hpcflow.compiler.regions import structurize

TASKS, CPUS = 3, 2
#: Graphs have from 5 values to fewer than this many more.
LARGEST = 60
TIMEOUT = hf.RunOptions(timeout_in_ms=60000)


class Form(NamedTuple):
    """One way to run a graph: with regions, optimized, on how many devices, of a cluster or not;
    with conditionals and loops in the regions or not."""

    regions: bool
    optimized: bool
    devices: int
    cluster: bool = False
    absorbing: bool = True


LOCAL = (Form(True, True, 1), Form(True, False, 1), Form(False, True, 1), Form(True, True, 3),
         Form(False, False, 2), Form(True, True, 1, absorbing=False))
SPREAD = (Form(True, True, TASKS * CPUS, True), Form(False, True, TASKS * CPUS, True))


class Cluster:
    """Tasks with several CPU devices each; `target` is the master's."""

    def __init__(self, target: str, devices: list[str]) -> None:
        self.target = target
        self.devices = devices


@contextmanager
def loopback(tasks: int = TASKS, cpus: int = CPUS) -> Iterator[Cluster]:
    """A cluster in this process."""
    options = hf.ConfigProto(device_count={"CPU": cpus})
    spec = hf.train.ClusterSpec({"worker": [f"random:{i}" for i in range(tasks)]})
    servers = [hf.train.Server(spec, "worker", i, config=options) for i in range(tasks)]
    try:
        yield Cluster(servers[0].target, devices_of(tasks, cpus))
    finally:
        for server in servers:
            server._server.close()


def devices_of(tasks: int, cpus: int) -> list[str]:
    """The names of the devices of a cluster."""
    return [f"/job:worker/task:{t}/cpu:{c}" for t in range(tasks) for c in range(cpus)]


_fits = structurize._fits


@contextmanager
def session(form: Form, cluster: Cluster | None) -> Iterator[Any]:
    """A session for a form, in whose tasks steps are compiled so."""
    previous = config.flags.compile
    config.flags.compile = form.regions
    structurize._fits = _fits if form.absorbing else lambda node: False
    level = hf.OptimizerOptions(opt_level=0 if form.optimized else -1)
    options = hf.ConfigProto(device_count={"CPU": form.devices},
                             allow_soft_placement=not form.cluster,
                             graph_options=hf.GraphOptions(optimizer_options=level))
    target = cluster.target if form.cluster and cluster is not None else ""
    try:
        with hf.Session(target, config=options) as made:
            yield made
    finally:
        config.flags.compile = previous
        structurize._fits = _fits


class Case:
    """A graph built from a seed, with the steps to run and what they must give."""

    def __init__(self, seed: int, devices: list[str], largest: int = LARGEST) -> None:
        graph = self.graph = RandomGraph(seed, 5 + seed % largest, devices)
        self.gradients = self._gradients() if seed % 3 == 0 else []
        count = len(graph.values)
        fetches = [sorted(graph.random.choice(count, min(count, n), replace=False))
                   for n in (1 + seed % 25, 4)]
        self.steps = [(graph.feeds() | {"predicate": bool(graph.random.randint(2))},
                       fetches[i % 2]) for i in range(4)]

    def _gradients(self) -> list:
        """Of what nested loops and conditionals give, by the placeholders: these have no reference
        but each other."""
        graph = self.graph
        if not graph.differentiable:
            return []
        sources = [p.tensor for p in graph.placeholders if p.kind == "f"]
        found = hf.gradients(graph.differentiable[-1].tensor, sources,
                             colocate_gradients_with_ops=True)
        return [g for g in found if g is not None]

    def expected(self) -> list:
        """The values of each step, and the variables after it, by NumPy."""
        state = self.graph.initial_state()
        found = []
        for feeds, fetch in self.steps:
            values = self.graph.expected(feeds, state)
            found.append(([values[i] for i in fetch], [v.copy() for v in state]))
        return found

    def run(self, form: Form, cluster: Cluster | None = None) -> tuple[list, list]:
        """The same from a session, and the gradients of each step."""
        graph, results, gradients = self.graph, [], []
        picked = [v.tensor for v in graph.values]
        with session(form, cluster) as s:
            s.run(hf.global_variables_initializer())
            variables = [v.variable for v in graph.variables]
            for feeds, fetch in self.steps:
                fed = {p.tensor: feeds[i].copy() for i, p in enumerate(graph.placeholders)}
                fed[graph.predicate] = feeds["predicate"]
                values, _, grads = s.run([[picked[i] for i in fetch], graph.updates,
                                          self.gradients], fed, TIMEOUT)
                for array in fed.values():  # nobody may hold on to what was fed
                    if isinstance(array, np.ndarray) and array.ndim:
                        array[...] = 99
                results.append((values, s.run(variables)))
                gradients.append(grads)
        return results, gradients


def check(seed: int, local: tuple[Form, ...] = LOCAL, cluster: Cluster | None = None,
          spread: tuple[Form, ...] = SPREAD, largest: int = LARGEST) -> None:
    """Raise unless the graph of `seed` gives the same in all forms, bit by bit."""
    # Masters that run at the same time have variables of the same names.
    container = f"random {seed}"
    wanted: Any = None
    gradients: Any = None
    for forms, devices in ((local, [f"/cpu:{i}" for i in range(3)]),
                           (spread if cluster is not None else (),
                            cluster.devices if cluster is not None else [])):
        if not forms:
            continue
        with hf.Graph().as_default() as graph, graph.container(container):
            case = Case(seed, devices, largest)
            wanted = wanted or case.expected()
            for form in forms:
                got, grads = case.run(form, cluster)
                gradients = gradients or grads
                compare(got, wanted, f"seed {seed}, {form}")
                compare([(g, []) for g in grads], [(g, []) for g in gradients],
                        f"gradients, seed {seed}, {form}")
    if cluster is not None:
        hf.Session.reset(cluster.target, [container])


def compare(got: list, wanted: list, what: str) -> None:
    """Equal steps: values, and variables."""
    for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
        for part, name in enumerate(("value", "variable")):
            for i, (x, y) in enumerate(zip(a[part], b[part], strict=True)):
                np.testing.assert_array_equal(x, y, err_msg=f"{what}, step {k}, {name} {i}")


def some(forms: tuple[Form, ...], seed: int, count: int) -> tuple[Form, ...]:
    """`count` of the forms, others for the next seed."""
    return tuple(forms[(seed + 2 * k) % len(forms)] for k in range(count))


def check_all(seeds: range, cluster: Cluster | None, thorough: bool = False,
              largest: int = LARGEST) -> None:
    """Check them one after the other, in all forms or in some of each kind; says the seed of one
    that fails."""
    for seed in seeds:
        try:
            if thorough:
                check(seed, cluster=cluster, largest=largest)
            elif seed % 2:
                check(seed, some(LOCAL, seed // 2, 2), largest=largest)
            else:
                check(seed, some(LOCAL, seed // 2, 1), cluster, some(SPREAD, seed // 2, 1), largest)
        except BaseException:
            size = f" --largest {largest}" if largest != LARGEST else ""
            print(f"seed {seed}: python tests/random_check.py --first {seed} --count 1{size}",
                  flush=True)
            raise


@contextmanager
def ranks(cpus: int = CPUS) -> Iterator[tuple[Cluster, int, int]]:
    """The cluster of all ranks, the number of this one, and how many there are; nobody leaves
    before all are done."""
    from mpi4py import MPI

    task = hf.mpi.task(comm=MPI.COMM_WORLD.Dup())
    server = hf.train.Server(task.cluster, task.job, task.index,
                             config=hf.ConfigProto(device_count={"CPU": cpus}))
    count = task.cluster.num_tasks(task.job)
    yield Cluster(server.target, devices_of(count, cpus)), task.index, count
    server.join()


def check_many(seeds: range, cluster: Cluster, thorough: bool, largest: int) -> None:
    """Check them, and say after every hundred how far this is."""
    begin = time.monotonic()
    for start in range(0, len(seeds), 100):
        part = seeds[start:start + 100]
        check_all(part, cluster, thorough, largest)
        print(f"seeds {part[0]} to {part[-1]} agree "
              f"({time.monotonic() - begin:.0f} s)", flush=True)


def main() -> None:
    """Check as many as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--some", action="store_true", help="two forms of each graph, not all")
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="VALUES",
                        help=f"a graph has fewer than this many values and 5 (default: {LARGEST})")
    parser.add_argument("--ranks", action="store_true", help="over the ranks of an MPI job")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.count)
    if options.ranks:
        with ranks() as (cluster, rank, count):
            share = seeds[rank * len(seeds) // count:(rank + 1) * len(seeds) // count]
            check_many(share, cluster, not options.some, options.largest)
    else:
        with loopback() as cluster:
            check_many(seeds, cluster, not options.some, options.largest)


if __name__ == "__main__":
    sys.exit(main())
