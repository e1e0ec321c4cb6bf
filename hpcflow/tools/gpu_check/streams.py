"""The stage ``streams``: copies beside kernels, waits, graphs, memory, and two ranks of one GPU."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config
from hpcflow.tools import facts as doctor
from hpcflow.tools.gpu_check import exchange

if TYPE_CHECKING:
    import hpcflow as hf
    from hpcflow.tools.gpu_check.stages import Asked

Facts = dict[str, Any]
_FLOATS = 16 << 20  # 64 MiB


def streams(asked: Asked) -> None:
    """Check what a step needs of streams, events, pinned memory and graphs, each by itself."""
    size = 1 << 16 if asked.stand_in else _FLOATS
    table: dict[str, Callable[[], Facts]] = {
        "feed and fetch": functools.partial(_feed_and_fetch, size),
        "pageable": functools.partial(_pageable, size),
        "overlap": functools.partial(_overlap, size),
        "waits": _waits, "graph": _graph, "graph of other shapes": _other_shapes,
        "memory": functools.partial(_memory, asked.stand_in),
        "memory of a graph": functools.partial(_memory_of_a_graph, 32 if asked.stand_in else 1024),
    }
    if not asked.stand_in:
        table["two ranks"] = functools.partial(_two_ranks, size)
    for name, check in table.items():
        if asked.wants(name):
            asked.attempt("streams", name, check)


# ---------------------------------------------------------------- what the checks share

def _gpu(session: Any) -> Any:
    return next(d for d in session._engine.task.devices if d.type == "GPU")


@contextmanager
def _session(**options: Any) -> Iterator[Any]:
    import hpcflow as hf

    with hf.Graph().as_default(), hf.device("/gpu:0"):
        session = hf.Session(config=hf.ConfigProto(allow_soft_placement=True, **options))
        with session:
            yield session


def _seconds(call: Callable[[], Any], times: int) -> float:
    """The median time of a call; the first is not counted. At most so many, or a second of them."""
    call()
    found: list[float] = []
    while len(found) < times and sum(found) < 1.0:
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2]


# ---------------------------------------------------------------- copies

def _feed_and_fetch(size: int) -> Facts:
    """Rates of a feed and of a fetch through a session."""
    import hpcflow as hf

    value = np.arange(size, dtype=np.float32)
    with _session() as session:
        x = hf.placeholder(hf.float32, [size])
        up = hf.reshape(x, [-1, 64])[0, 0]
        kept = hf.Variable(hf.zeros([size]))
        keep = kept.assign(x)
        session.run(keep.op, {x: value})
        down = kept + 1.0
        right = np.array_equal(session.run(down), value + 1)
        found = {
            "feed_GB_per_s": 4e-9 * size / _seconds(lambda: session.run(up, {x: value}), 7),
            "fetch_GB_per_s": 4e-9 * size / _seconds(lambda: session.run(down), 7),
            "small_feed_and_fetch_us": 1e6 * _seconds(_small(session), 200),
        }
    return {**found, "failed": None if right else "what was fetched is not what was fed"}


def _small(session: Any) -> Callable[[], Any]:
    import hpcflow as hf

    x = hf.placeholder(hf.float32, [16])
    y = x * 2.0
    value = np.ones(16, np.float32)
    return lambda: session.run(y, {x: value})


def _pageable(size: int) -> Facts:
    """The same copies by CuPy's own functions."""
    with _session() as session:
        gpu = _gpu(session)
        xp, value = gpu.xp, np.arange(size, dtype=np.float32)

        def measure() -> Facts:
            there = xp.asarray(value)

            def up() -> None:
                xp.asarray(value)
                gpu.synchronize()

            return {"asarray_GB_per_s": 4e-9 * size / _seconds(up, 5),
                    "asnumpy_GB_per_s": 4e-9 * size / _seconds(lambda: xp.asnumpy(there), 5)}

        return gpu.entered(measure)()


def _overlap(size: int) -> Facts:
    """The time of products, of copies in both directions, and of both at once."""
    with _session() as session:
        gpu = _gpu(session)
        xp, value = gpu.xp, np.arange(size, dtype=np.float32)
        dims = 4096 if size == _FLOATS else 64

        def measure() -> Facts:
            a, there = xp.ones((dims, dims), np.float32), xp.asarray(value)

            def compute() -> None:
                for _ in range(8):
                    xp.matmul(a, a)

            def copy() -> Any:
                gpu.transfers.upload(value)
                return gpu.transfers.download(there)

            def ended(*calls: Callable[[], Any]) -> Callable[[], None]:
                def run() -> None:
                    kept = [call() for call in calls]
                    gpu.synchronize()
                    del kept

                return run

            alone, copies = _seconds(ended(compute), 5), _seconds(ended(copy), 5)
            both = _seconds(ended(compute, copy), 5)
            return {"kernels_ms": 1e3 * alone, "copies_ms": 1e3 * copies, "both_ms": 1e3 * both,
                    "hidden": (alone + copies - both) / min(alone, copies)}

        return gpu.entered(measure)()


# ---------------------------------------------------------------- steps

@contextmanager
def counted_waits(gpu: Any) -> Iterator[list[None]]:
    """Inside, a list that grows with every wait of the host for an event or a stream."""
    streams = gpu.streams
    found: list[None] = []
    kinds: list[Any] = [type(streams.event(streams.compute)), type(streams.compute).__mro__[-2]]
    kept = [kind.synchronize for kind in kinds]

    def counting(wait: Callable[[Any], None]) -> Callable[[Any], None]:
        def synchronize(self: Any) -> None:
            found.append(None)
            wait(self)

        return synchronize

    for kind, wait in zip(kinds, kept):
        kind.synchronize = counting(wait)
    try:
        yield found
    finally:
        for kind, wait in zip(kinds, kept):
            kind.synchronize = wait


class _Perceptron:
    """Figure 1 of the 1.x white paper, by Adagrad; built in the default graph."""

    def __init__(self, batch: int | None = 64) -> None:
        import hpcflow as hf

        random = np.random.default_rng(0)
        self.x = hf.placeholder(hf.float32, [batch, 784])
        self.y = hf.placeholder(hf.float32, [batch, 10])
        first, second = (hf.Variable(0.1 * random.standard_normal(d).astype(np.float32))
                         for d in ((784, 100), (100, 10)))
        hidden = hf.nn.relu(hf.matmul(self.x, first) + hf.Variable(hf.zeros([100])))
        self.logits = hf.matmul(hidden, second) + hf.Variable(hf.zeros([10]))
        self.loss = hf.reduce_mean(hf.nn.softmax_cross_entropy_with_logits(
            labels=self.y, logits=self.logits))
        self.train = hf.train.AdagradOptimizer(0.01).minimize(self.loss)

    def feed(self, batch: int = 64) -> dict[hf.Tensor, np.ndarray]:
        random = np.random.default_rng(batch)
        return {self.x: random.random((batch, 784), np.float32),
                self.y: np.eye(10, dtype=np.float32)[random.integers(10, size=batch)]}


def _waits() -> Facts:
    """The times that the host waits in a step that fetches three values."""
    import hpcflow as hf

    with _session() as session:
        net = _Perceptron()
        session.run(hf.global_variables_initializer())
        step, feed = [net.train, net.loss, net.logits, net.loss * 2.0], net.feed()
        for _ in range(3):
            session.run(step, feed)
        with counted_waits(_gpu(session)) as found:
            session.run(step, feed)
    return {"waits": len(found), "failed": None if len(found) <= 1 else "more than one wait"}


@contextmanager
def _graphs(wanted: bool) -> Iterator[None]:
    kept, config.flags.cuda_graphs = config.flags.cuda_graphs, wanted
    try:
        yield
    finally:
        config.flags.cuda_graphs = kept


def _trained(wanted: bool, batches: list[int], fixed: bool) -> tuple[list[float], Facts]:
    """The losses of steps with batches of these sizes, and what became of the regions."""
    import hpcflow as hf

    with _graphs(wanted), _session() as session:
        net = _Perceptron(batches[0] if fixed else None)
        session.run(hf.global_variables_initializer())
        losses = [float(session.run([net.train, net.loss], net.feed(n))[1]) for n in batches]
        feed = net.feed(batches[-1])
        step = 1e6 * _seconds(lambda: session.run([net.train, net.loss], feed), 200)
        gpu = _gpu(session)
        return losses, {"step_us": step, "regions": [r.describe() for r in gpu.recorded],
                        "launches": sum(r.launches for r in gpu.recorded)}


def _compared(batches: list[int], fixed: bool) -> Facts:
    (plain, eager), (found, graph) = (_trained(wanted, batches, fixed) for wanted in (False, True))
    worst = float(np.max(np.abs(np.subtract(plain, found))))
    failed = f"the losses differ by {worst}" if not worst <= 1e-3 else None
    if not graph["launches"]:
        failed = "no graph was launched"
    return {"eager_us": eager["step_us"], "graph_us": graph["step_us"], "differ": worst,
            "launches": graph["launches"], "regions": graph["regions"], "failed": failed}


def _graph() -> Facts:
    """The perceptron with its kernels launched as one graph: losses and times."""
    return _compared([64] * 20, True)


def _other_shapes() -> Facts:
    """Graphs for two sizes of a batch, in turns."""
    return _compared([64, 32] * 10, False)


def _memory(stand_in: bool) -> Facts:
    """The message of too little memory; the session then goes on."""
    import hpcflow as hf

    with _session() as session:
        gpu = _gpu(session)
        rows = hf.placeholder(hf.int32, [])
        kept = hf.Variable(hf.ones([1024, 256]), name="kept")
        total = hf.reduce_sum(hf.ones([rows, 1 << 20]) + kept[0, 0])
        session.run(hf.global_variables_initializer())
        too_many = 2 * gpu.memory_limit() >> 22
        try:
            session.run(total, {rows: 1 << 30 if stand_in else too_many})
        except hf.errors.ResourceExhaustedError as e:
            said = str(e)
        else:
            return {"failed": "there was memory enough"}
        right = float(session.run(total, {rows: 1})) == 2.0 * (1 << 20)
    missing = [word for word in ("kept", "live on", "MiB") if word not in said]
    return {"said": said, "failed": f"not said: {missing}" if missing else (
        None if right else "the session does not go on")}


def _memory_of_a_graph(size: int) -> Facts:
    """A graph has one block of a part of the memory that was taken at once: larger and larger
    values need no more of it than the last ones."""
    import hpcflow as hf

    options = hf.GPUOptions(per_process_gpu_memory_fraction=0.3)
    with _graphs(True), _session(gpu_options=options) as session:
        gpu, wanted = _gpu(session), 0.0
        x, w = hf.Variable(hf.ones([size, size])), hf.Variable(hf.ones([size, 4 * size]))
        total = hf.constant(0.0)
        for k in range(1, 9):
            total = total + hf.reduce_max(hf.matmul(hf.tile(x + total, [k, 1]), w)) / size
            wanted = 2 * wanted + 1
        session.run(hf.global_variables_initializer())
        found = [float(session.run(total)) for _ in range(4)]
        last, held = 8 * size * 5 * size * 4, sum(r.graph_bytes() for r in gpu.recorded)
        facts = {"MiB": held / 2**20, "of the last": held / last,
                 "regions": [r.describe() for r in gpu.recorded]}
        launched = sum(r.launches for r in gpu.recorded)
    failed = (None if np.allclose(found, wanted, rtol=1e-4) else f"gives {found}, not {wanted}")
    if not launched or held >= 1.2 * last + (1 << 20):
        failed = "no graph was launched" if not launched else "it takes more than one block"
    return {**facts, "failed": failed}


# ---------------------------------------------------------------- ranks

def _two_ranks(size: int) -> Facts:
    """A tensor from the GPU of one rank to that of another, on one GPU."""
    mpirun = doctor.launchers()["mpirun"]
    if not mpirun:
        return {"failed": "there is no mpirun"}
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [mpirun, "--oversubscribe", "-n", "2", sys.executable, exchange.__file__, str(size)],
        capture_output=True, text=True, env=environment, timeout=25, check=False)
    said = (done.stdout + done.stderr)[-1500:]  # lines of JSON
    return {"said": said, "failed": said if done.returncode else None}
