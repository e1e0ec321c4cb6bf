"""The stages of the check; each runs in a process of its own and puts its results down."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hpcflow.tools import facts as doctor
from hpcflow.tools.gpu_check import convolutions, exchange, links
from hpcflow.tools.gpu_check import written as written_kernels
from hpcflow.tools.gpu_check.programs import programs
from hpcflow.tools.gpu_check.results import Results
from hpcflow.tools.gpu_check.streams import streams


class Asked(NamedTuple):
    """The task of a stage: the cases to check, and the place of their results.

    Attributes:
        repo: the project's folder, which has the tests and the examples.
        names: only these op types or cases of the benchmark; all if empty.
        share, shares: of the cases those of this worker.
        stand_in: there is no GPU, but what stands in for one.
    """

    results: Results
    repo: Path
    names: tuple[str, ...] = ()
    share: int = 0
    shares: int = 1
    stand_in: bool = False

    def wants(self, name: str) -> bool:
        """True if `name` is to be checked."""
        return not self.names or name in self.names

    def attempt(self, stage: str, name: str, check: Callable[[], dict[str, Any]]) -> None:
        """Put down what ``check()`` finds, or how it fails."""
        try:
            self.results.put(stage, name=name, **check())
        except Exception:  # noqa: BLE001  (a failure is a result)
            self.results.put(stage, name=name, failed=traceback.format_exc()[-1500:])


def facts(asked: Asked) -> None:
    """Record the versions, the machine, its GPU and its MPI."""
    found = {"versions": doctor.versions(), "machine": doctor.machine(), "gpu": doctor.gpu(),
             "mpi": doctor.mpi()}
    failed = found["gpu"].get("error")
    asked.results.put("facts", failed=failed, **found)


def smoke(asked: Asked) -> None:
    """Training of the perceptron on CPU and GPU: the same losses, and the time of a step."""
    for name, count in (("GPU", {}), ("CPU", {"GPU": 0})):
        asked.attempt("smoke", name, functools.partial(_perceptron, name, count))


def _perceptron(name: str, count: dict[str, int]) -> dict[str, Any]:
    import hpcflow as hf

    random = np.random.default_rng(0)
    with hf.Graph().as_default():
        x, y = hf.placeholder(hf.float32, [64, 784]), hf.placeholder(hf.float32, [64, 10])
        first, second = (hf.Variable(0.1 * random.standard_normal(d).astype(np.float32))
                         for d in ((784, 100), (100, 10)))
        hidden = hf.nn.relu(hf.matmul(x, first) + hf.Variable(hf.zeros([100])))
        loss = hf.reduce_mean(hf.nn.softmax_cross_entropy_with_logits(
            labels=y, logits=hf.matmul(hidden, second)))
        train = hf.train.AdagradOptimizer(0.01).minimize(loss)
        feed = {x: random.random((64, 784), np.float32),
                y: np.eye(10, dtype=np.float32)[random.integers(10, size=64)]}
        with hf.Session(config=hf.ConfigProto(device_count=count)) as session:
            devices = [d.name for d in session.list_devices()]
            session.run(hf.global_variables_initializer())
            losses = [float(session.run([train, loss], feed)[1]) for _ in range(20)]
            began = time.perf_counter()
            for _ in range(100):
                session.run(train, feed)
            session.run(loss, feed)
            step = (time.perf_counter() - began) / 100
    missing = None if name == "CPU" or any("GPU" in d for d in devices) else "no GPU is offered"
    return {"devices": devices, "losses": losses[::5], "step_us": step * 1e6, "failed": missing}


def micro(asked: Asked) -> None:
    """Launches, copies, matrix products: what everything else is made of."""
    import cupy as cp

    small, large = cp.ones(1000, "f"), np.ones(1 << 26, "u1")
    there, matrix = cp.asarray(large), cp.ones((4096, 4096), "f")
    half, scalar = matrix.astype("e"), cp.zeros((), "f")
    pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(large.nbytes), "u1", large.nbytes)
    flops, vector = 2 * 4096**3, cp.ones(1 << 20, "f")
    block, same = cp.ones(1 << 26, "f"), cp.empty(1 << 26, "f")
    asked.results.put("micro", name="memory", bytes=cp.cuda.Device().mem_info[1])
    table: list[tuple[str, Callable[[], Any], int, int]] = [
        ("launch", lambda: small + small, 2000, 0), ("item", scalar.item, 1000, 0),
        ("to GPU", lambda: cp.asarray(large), 5, large.nbytes),
        ("to host", lambda: cp.asnumpy(there), 5, large.nbytes),
        ("to GPU, pinned", lambda: there.set(pinned), 5, large.nbytes),
        ("to host, pinned", lambda: there.get(out=pinned), 5, large.nbytes),
        ("float32 product", lambda: matrix @ matrix, 10, flops),
        ("float16 product", lambda: half @ half, 10, flops),
        ("copy on GPU", lambda: cp.copyto(same, block), 10, 2 * block.nbytes),
        ("element-wise", lambda: cp.add(vector, vector, out=vector), 500, vector.size),
    ]
    for name, call, times, amount in table:
        asked.attempt("micro", name, functools.partial(_timed, cp, call, times, amount))
    for name, measure in written_kernels.times():
        asked.attempt("micro", name, measure)


def _timed(cp: Any, call: Callable[[], Any], times: int, amount: int) -> dict[str, Any]:
    call()
    cp.cuda.Device().synchronize()
    began = time.perf_counter()
    for _ in range(times):
        call()
    cp.cuda.Device().synchronize()
    seconds = (time.perf_counter() - began) / times
    return {"us": seconds * 1e6, "G_per_s": amount / seconds / 1e9}


def cases(asked: Asked) -> None:
    """The oracle's valid cases, CPU against GPU: of the op types of this worker."""
    _test_paths(asked.repo)
    from gpu_ring.cases import cases_by_type, chosen, differences

    by_type = cases_by_type()
    for op in [op for op in sorted(by_type) if asked.wants(op)][asked.share :: asked.shares]:
        some = chosen(by_type[op], 6)
        asked.attempt("cases", op, functools.partial(_compared, differences, some))


def _compared(differences: Callable[[Any], list[str]], chosen: Iterable[Any]) -> dict[str, Any]:
    """In what the devices differ, if in anything."""
    return {"failed": "\n".join(text for case in chosen for text in differences(case))[:1500]
            or None}


def cudnn(asked: Asked) -> None:
    """The cases of the op types that cuDNN serves, and the times of its convolutions."""
    os.environ["HPCFLOW_CUDNN"] = "1"
    from hpcflow import config
    from hpcflow.kernels.cudnn import library

    config.flags.reload()
    if library.load() is None:
        asked.results.put("cudnn", failed="cuDNN is not found")
        return
    _test_paths(asked.repo)
    from gpu_ring.cases import cases_by_type, differences
    from gpu_ring.test_cudnn import OPS, check_layer

    for op in filter(asked.wants, OPS):
        asked.attempt("cudnn", op, functools.partial(_compared, differences, cases_by_type()[op]))
    for name in filter(asked.wants, ("layer of float16", "layer of float32")):
        asked.attempt("cudnn", name, functools.partial(_agreed, check_layer, name.split()[-1]))
    if not asked.stand_in:
        import cupy

        for name, check in convolutions.ways(cupy):
            if asked.wants(name):
                asked.attempt("cudnn", name, check)


def _agreed(check: Callable[[Any, bool], None], dtype: str) -> dict[str, Any]:
    """Nothing if layers of `dtype`, with a relu and without, agree with the CPU."""
    for relu in (True, False):
        check(np.dtype(dtype).type, relu)
    return {}


def written(asked: Asked) -> None:
    """The kernels that are written out, CPU against GPU: those of this worker."""
    _test_paths(asked.repo)
    wanted = [c for c in written_kernels.checks() if asked.wants(c[0])]
    for name, check in wanted[asked.share :: asked.shares]:
        asked.attempt("written", name, check)


def _test_paths(repo: Path) -> None:
    sys.path[:0] = [str(repo / "tests"), str(repo / "tests" / "oracle")]


def bench(asked: Asked) -> None:
    """The table of ``bench gpu``, with PyTorch where this Python has it; what is not begun in nine
    tenths of the stage's time is left out."""
    from hpcflow.tools.bench import gpu
    from hpcflow.tools.bench.registry import Options

    peers = {"torch": sys.executable} if importlib.util.find_spec("torch") else {}
    options = Options(peers, stand_in=asked.repo if asked.stand_in else None)
    for row in gpu.rows(options, asked.wants, 0.9 * STAGES["bench"][1]):
        asked.results.put("bench", name=row.pop("case"), **row)


# The ways of an edge. A reduction goes by NCCL where each rank has a GPU of its own, in memory that
# the GPUs share where they may, and through the hosts else.
_EXCHANGES = {
    "exchange": {},
    "exchange by shared memory": {"HPCFLOW_CUDA_IPC": "0"},
    "exchange by messages": {"HPCFLOW_CUDA_IPC": "0", "HPCFLOW_SHARED_BYTES": "0"},
}


def mpi(asked: Asked) -> None:
    """NCCL on one GPU; two ranks on the GPUs that there are: a parameter server, a reduction, and
    the ways between GPUs."""
    mpirun = doctor.launchers()["mpirun"]
    if not mpirun:
        asked.results.put("mpi", failed="there is no mpirun")
        return
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as folder:
        short = ["--steps", "200", "--logdir", folder]
        for name, program in (("parameter server", ["digits_ps.py", "--ps", "1", *short]),
                              ("all-reduce", ["digits_allreduce.py", *short])):
            if asked.wants(name):
                asked.attempt("mpi", name, functools.partial(
                    _ranks, mpirun, asked.repo / "examples", program, environment))
    if asked.wants("nccl"):
        asked.attempt("mpi", "nccl", functools.partial(links.alone, asked))
    for name, variables in _EXCHANGES.items():
        if asked.wants(name):
            asked.attempt("mpi", name, functools.partial(
                _exchanged, mpirun, asked, environment | variables))


def _ranks(mpirun: str, folder: Path, program: list[str], env: dict[str, str]) -> dict[str, Any]:
    began = time.perf_counter()
    done = subprocess.run(
        [mpirun, "--oversubscribe", "-n", "2", sys.executable, str(folder / program[0]),
         *program[1:]], capture_output=True, text=True, env=env, timeout=30)
    text = (done.stdout + done.stderr)[-1500:]
    return {"seconds": time.perf_counter() - began, "said": text,
            "failed": text if done.returncode else None}


def _exchanged(mpirun: str, asked: Asked, env: dict[str, str]) -> dict[str, Any]:
    """An edge and a reduction of 64 MB between GPUs: values, route and rate."""
    size, folder = (1 << 16, [str(asked.repo)]) if asked.stand_in else (1 << 24, [])
    done = subprocess.run(
        [mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable,
         exchange.__file__, str(size), *folder], capture_output=True, text=True, env=env,
        timeout=40, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    said = (done.stdout + done.stderr)[-1500:]
    return {"rows": rows, "failed": said if done.returncode or not rows else None}


# In this order, with limits in seconds, together at most 560: what is cheap and decisive, or has
# run on no GPU yet, comes first.
STAGES: dict[str, tuple[Callable[[Asked], None], float]] = {
    "facts": (facts, 20), "written": (written, 40), "smoke": (smoke, 40), "streams": (streams, 50),
    "micro": (micro, 30), "programs": (programs, 40), "cases": (cases, 70), "cudnn": (cudnn, 40),
    "bench": (bench, 170), "mpi": (mpi, 60),
}
#: Stages whose checks several workers share.
SHARED = ("written", "cases")
