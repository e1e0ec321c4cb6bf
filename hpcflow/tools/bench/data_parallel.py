"""``bench data_parallel``: training steps of two ranks that average their gradients.

Every rank has a batch of its own, and as many threads as its share of the cores. Beside it, in
turns, PyTorch trains the same network by DistributedDataParallel over Gloo, in two processes that
the ranks start; ``alone`` is hpcflow's step without the other rank.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow
from hpcflow.comm.launch import launch
from hpcflow.comm.world import world
from hpcflow.tools import table
from hpcflow.tools.bench.contestants import Contestant, Local, Peer, core_count
from hpcflow.tools.bench.convnets import NETWORKS, Network
from hpcflow.tools.bench.programs import convnets
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, ratio_of
from hpcflow.tools.bench.together import Team
from hpcflow.tools.table import Row

if TYPE_CHECKING:
    from mpi4py import MPI

ALONE = "hpcflow alone"
MLP = Network("MLP", 128, 16, [["dense", 1024], ["dense", 1024], ["dense", 1000, False]])
CASES = (MLP, NETWORKS[0]._replace(batch=8))
_PLAN = Plan(rounds=7, block_seconds=0.6, min_samples=2)


def run(options: Options) -> list[Row]:
    """Measure every network; rank 0 returns rows."""
    started = launch()
    assert started is not None  # the command sees to the ranks
    with contextlib.ExitStack() as stack:
        # Before MPI starts: a process should not fork once it uses MPI.
        peers = [stack.enter_context(Peer(name, python, f"data_parallel_{name}"))
                 for name, python in options.peers.items()]
        comm = world().comm.Dup()
        plan = plan_of(options) if options.quick else _PLAN
        cases = CASES[:1] if options.quick else CASES
        return [row for network in cases for row in measure(comm, network, peers, plan)]


def measure(comm: MPI.Comm, network: Network, peers: list[Peer], plan: Plan) -> list[Row]:
    """The rows of one network."""
    case = {"batch": network.batch, "image": [network.image] * 2, "layers": network.layers,
            "training": True, "threads": core_count(), "rank": comm.rank, "size": comm.size}
    with contextlib.ExitStack() as stack:
        contestants: list[Contestant] = []
        for name in (OURS, ALONE):
            step, close = open_session(case, name == OURS)
            stack.callback(close)
            contestants.append(Local(name, step))
        for peer in peers:
            store = _store(comm)
            stack.callback(shutil.rmtree, os.path.dirname(store), ignore_errors=True)
            contestants.append(peer.open(network.name, {**case, "store": store}))
            stack.callback(peer.close_case)
        team = Team(comm, contestants)
        if comm.rank:
            team.follow()
            return []
        rounds = alternate(team.turns, plan)
        team.end()
        rows = _rows(f"{network.name} ({network.batch} per rank)", rounds)
        table.tell(rows)
        return rows


def _store(comm: MPI.Comm) -> str:
    """A file that does not exist yet, the same on all ranks."""
    folder = tempfile.mkdtemp(prefix="hpcflow-bench-") if comm.rank == 0 else None
    return os.path.join(comm.bcast(folder), "store")


def _rows(title: str, rounds: dict[str, list[list[float]]]) -> list[Row]:
    rows: list[Row] = []
    for name, blocks in rounds.items():
        times = 1e3 * np.concatenate(blocks)
        ratio = None if name == OURS else ratio_of(rounds[OURS], blocks)
        rows.append({"case": title, "program": name, "median ms": float(np.median(times)),
                     "least ms": float(times.min()), "hpcflow/it": ratio})
    return rows


def open_session(case: dict[str, Any], together: bool) -> tuple[Callable[[], Any], Any]:
    """A training step, with or without the other ranks: (function that runs it, close)."""
    threads = case["threads"]
    config = hpcflow.ConfigProto(intra_op_parallelism_threads=threads,
                                 inter_op_parallelism_threads=threads)
    with hpcflow.Graph().as_default() as graph:
        images, labels = convnets.batch_of(case)
        scores = convnets.network(hpcflow, hpcflow.Variable(images, trainable=False),
                                  case["layers"])
        losses = hpcflow.nn.sparse_softmax_cross_entropy_with_logits(
            labels=hpcflow.Variable(labels, trainable=False), logits=scores)
        optimizer: Any = hpcflow.train.GradientDescentOptimizer(convnets.RATE)
        if together:
            optimizer = hpcflow.mpi.DistributedOptimizer(optimizer)
        train = optimizer.minimize(hpcflow.reduce_mean(losses))
        session = hpcflow.Session(graph=graph, config=config)
        session.run(hpcflow.global_variables_initializer())
    return lambda: session.run(train), session.close
