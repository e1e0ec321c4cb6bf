"""What goes wrong between linked GPUs: ``mpirun -n 2 python link_faults.py CASE``.

They are linked by NCCL, or with ``HPCFLOW_NCCL=0`` by memory that they share. Every rank prints
what it has seen as the line ``rank K: ...``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gpu_ring.rank_program import stand_in

import hpcflow as hf
from hpcflow import config, errors
from hpcflow.runtime.collective.collective_device import WAYS
from hpcflow.runtime.executor.gpu import ipc
from hpcflow.runtime.executor.gpu.ipc_link import Exchanges


def library() -> Any:
    """The stand-in for NCCL of this rank's GPU."""
    from gpu_ring.stand_in import _nccl, hardware

    return _nccl(hardware(hf.mpi.rank()))._functions["AllReduce"]._function.__self__


def _gpu() -> Any:
    """The GPU of this rank."""
    from gpu_ring.stand_in import hardware

    return hardware(hf.mpi.rank())


def _failing(text: str) -> Callable[..., object]:
    def fail(*_: object) -> object:
        raise RuntimeError(text)

    return fail


def _say(*words: object) -> None:
    print(f"rank {hf.mpi.rank()}:", *words, flush=True)


def _tried(run: Callable[[], object]) -> str:
    try:
        return str(run())
    except errors.OpError as e:
        return f"{type(e).__name__} {e.message}".splitlines()[0]


def refused() -> None:
    """One rank cannot open the link: all go through hosts."""
    if hf.mpi.rank():
        library().refuses = 3
    _sums()


def _sums() -> None:
    total = hf.mpi.allreduce(hf.constant([1.0, 2.0]) * float(hf.mpi.rank() + 1))
    with hf.Session() as session:
        _say(session.run(total).tolist(), session.run(total).tolist(), dict(WAYS))


def shared() -> None:
    """Two ranks use one GPU."""
    _sums()


def absent() -> None:
    """One rank has no NCCL."""
    if hf.mpi.rank():
        config.flags.nccl = "0"
    _sums()


def not_exported() -> None:
    """One rank's GPU exports no memory."""
    if hf.mpi.rank():
        _gpu().xp.cuda.Memory = _failing("cudaErrorNotSupported: no memory to export")
    _sums()


def not_opened() -> None:
    """One rank cannot open the other's memory."""
    if hf.mpi.rank():
        os.environ["STAND_IN_NO_IPC"] = "1"
    _sums()


def same_bits() -> None:
    """Results have the bits of those on CPUs, where sums depend on their order."""
    random = np.random.default_rng(hf.mpi.rank())
    config.flags.deterministic = True
    found, wrong = [], []
    for dtype in (hf.float32, hf.bfloat16, hf.int32):
        value = (1e3 * random.standard_normal(20011)).astype(dtype.as_numpy_dtype)
        for reduction in ("sum", "mean", "max"):
            for device in ("/gpu:0", "/cpu:0"):
                with hf.device(device):
                    found.append(hf.mpi.allreduce(hf.constant(value), reduction))
    with hf.Session() as session:
        values = session.run(found)
    for i in range(0, len(values), 2):
        if values[i].tobytes() != values[i + 1].tobytes():
            wrong.append(found[i].name)
    _say(wrong, dict(WAYS))


def failed_step() -> None:
    """A step that fails on one rank, before its operation, fails on all; the next ones go on."""
    rank, bad = hf.mpi.rank(), hf.placeholder(hf.bool, [])

    def check(value: object) -> object:
        if value and rank:
            raise ValueError("a bad batch")
        return np.float32(1)

    number = hf.py_func(check, [bad], hf.float32)
    number.set_shape([])
    total = hf.mpi.allreduce(hf.fill([3], 2.0) * number)
    found: list[str] = []
    with hf.Session() as session:
        for is_bad in (False, True, False, True, False):
            found.append(_tried(lambda b=is_bad: session.run(total, {bad: b}).tolist()))
        _say(found, dict(WAYS))


def out_of_order() -> None:
    """Ranks come to their operations in different orders."""
    rank = hf.mpi.rank()

    def slow(value: object) -> object:
        time.sleep(0.2)
        return value

    values = [hf.fill([4], float(i + 1)) for i in range(4)]
    for i in range(4):
        if i % 2 == rank:
            values[i] = hf.py_func(slow, [values[i]], hf.float32)
            values[i].set_shape([4])
    totals = [hf.mpi.allreduce(v) for v in values]
    with hf.Session() as session:
        for _ in range(3):
            found = session.run(totals)
        _say([v.tolist()[0] for v in found], dict(WAYS))


def left_out() -> None:
    """An operation in a branch is left out in some steps, by all ranks."""
    taken = hf.placeholder(hf.bool, [])
    inside = hf.cond(taken, lambda: hf.mpi.allreduce(hf.fill([2], 3.0)), lambda: hf.zeros([2]))
    always = hf.mpi.allreduce(hf.fill([2], 1.0))
    with hf.Session() as session:
        _say([[v.tolist()[0] for v in session.run([inside, always], {taken: t})]
              for t in (True, False, False, True)], dict(WAYS))


def training() -> None:
    """Data-parallel training, whose gradients are reduced in buckets; the last step is traced."""
    rank = hf.mpi.rank()
    random = np.random.default_rng(rank)
    x, y = hf.placeholder(hf.float32, [8, 20]), hf.placeholder(hf.float32, [8, 3])
    hidden = hf.nn.relu(hf.layers.dense(x, 16, name="one"))
    loss = hf.losses.mean_squared_error(y, hf.layers.dense(hidden, 3, name="two"))
    optimizer = hf.mpi.DistributedOptimizer(hf.train.MomentumOptimizer(0.05, 0.9))
    train = optimizer.minimize(loss)
    start = hf.mpi.broadcast_variables(0)
    options = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE)
    metadata = hf.RunMetadata()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(start)
        for step in range(4):
            feed = {x: random.random((8, 20), np.float32), y: random.random((8, 3), np.float32)}
            if step == 3:
                session.run(train, feed, options=options, run_metadata=metadata)
            else:
                session.run(train, feed)
        weights = session.run(hf.trainable_variables())
    rows = [d for d in metadata.step_stats.dev_stats if d.device.endswith("stream:collectives")]
    traced = [n.node_name for row in rows for n in row.node_stats]
    _say(sum(float(np.sum(w)) for w in weights), bool(traced), "staged" in WAYS)


def hangs() -> None:
    """A GPU does not take part in what it was to launch, or is never over with it."""
    total = hf.mpi.allreduce(hf.constant([1.0, 2.0]))
    with hf.Session() as session:
        session.run(total)
        config.flags.collective_timeout = 3.0
        if hf.mpi.rank():
            library()._launch = lambda comm, calls: 0
            Exchanges.is_over = lambda exchanges, event: False
        for _ in range(2):
            _say(_tried(lambda: session.run(total)))


def breaks() -> None:
    """NCCL reports a failure of the network on one rank, or its GPU copies nothing any more."""
    total = hf.mpi.allreduce(hf.constant([1.0, 2.0]))
    with hf.Session() as session:
        session.run(total)
        if hf.mpi.rank():
            ipc.copy_bytes = _failing("cudaErrorIllegalAddress")
            for comm in library()._comms.values():
                comm.ask = lambda: 6
        for _ in range(2):
            _say(_tried(lambda: session.run(total)))


def steps() -> None:
    """What goes wrong in steps, and what only looks so."""
    for case in (failed_step, out_of_order, left_out, training):
        WAYS.clear()
        with hf.Graph().as_default():
            case()


def main(case: str) -> None:
    """Run one case, on a GPU of each rank's own."""
    logging.basicConfig(format="log: %(message)s", level=logging.INFO, stream=sys.stdout)
    stand_in({"shared": 1, "same_bits": 3}.get(case, 2))
    globals()[case]()
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
