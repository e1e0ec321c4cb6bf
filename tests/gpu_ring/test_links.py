"""Collective operations between GPUs of several ranks: by NCCL, in memory that they share, or by
hosts where it must be."""

from __future__ import annotations

import ctypes.util
import re
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_ring.conftest import real_gpus
from gpu_ring.rank_program import run

from hpcflow import config
from hpcflow.comm import nccl


@pytest.fixture(autouse=True)
def _stand_in() -> None:
    if real_gpus():
        pytest.skip("how many GPUs there are is up to the stand-in; `gpu-check` runs on real ones")


@pytest.mark.parametrize(("ranks", "gpus", "way"), [
    (2, 2, "nccl"), (3, 3, "nccl"), (2, 1, "ipc"), (3, 2, "ipc"), (2, 1, "staged")])
def test_values(ranks: int, gpus: int, way: str) -> None:
    """Every operation, type and kind of shape, by each way; in one piece and in several."""
    variables = {"HPCFLOW_CUDA_IPC": "0"} if way == "staged" else {}
    done = run("linked.py", ranks, str(gpus), way, str(1 << 16 if ranks == 3 else 1 << 20),
               **variables)
    assert not done.returncode, done.stdout[-3000:] + done.stderr[-3000:]


def _said(case: str, ranks: int = 2, **variables: str) -> tuple[list[list[str]], str]:
    """What each rank says in a case of `link_faults`, and all output."""
    done = run("link_faults.py", ranks, case, **variables)
    lines = re.findall(r"^rank (\d): (.*)$", done.stdout, re.M)
    return [[text for rank, text in lines if int(rank) == k] for k in range(ranks)], (
        done.stdout + done.stderr)


_OFF = {"nccl": {}, "ipc": {"HPCFLOW_NCCL": "0"},
        "staged": {"HPCFLOW_NCCL": "0", "HPCFLOW_CUDA_IPC": "0"}}


@pytest.mark.parametrize(("case", "without", "way", "why"), [
    ("refused", "nccl", "ipc", "rank 1: ncclCommInitRankConfig failed"),
    ("shared", "nccl", "ipc", "ranks 0 and 1 use one GPU"),
    ("absent", "nccl", "ipc", "rank 1: HPCFLOW_NCCL=0"),
    ("not_exported", "ipc", "staged", "rank 1: this GPU exports no memory"),
    ("not_opened", "ipc", "staged", "rank 1: it cannot open memory of the GPU of rank 0"),
    ("shared", "staged", "staged", "rank 0: HPCFLOW_NCCL=0; rank 0: HPCFLOW_CUDA_IPC=0")])
def test_another_way(case: str, without: str, way: str, why: str) -> None:
    """Where GPUs cannot be linked by NCCL, or not by memory either, all ranks take the next way,
    and the first says why, once."""
    said, output = _said(case, **_OFF[without])
    for lines in said:
        assert lines == [f"[3.0, 6.0] [3.0, 6.0] {{'{way}': 2}}"], output
    where = {"ipc": "memory that they share", "staged": "host memory"}[way]
    assert output.count(f"Collective operations of GPUs go through {where}") == 1, output
    assert why in output, output


def test_the_bits_of_cpus() -> None:
    """In memory that GPUs share, values are joined in the order of the CPU."""
    said, output = _said("same_bits", 3)
    assert said == [["[] {'ipc': 9}"]] * 3, output


@pytest.mark.parametrize("way", ["nccl", "ipc"])
def test_steps(way: str) -> None:
    """Operations of a failed step are not launched; ranks may come in any order, and leave
    operations out. Training gives all ranks the same weights, and its trace has the launches."""
    said, output = _said("steps", **_OFF[way])
    first, second = said[0], said[1]
    assert len(first) == len(second) == 4, output
    assert first[0].count("[4.0, 4.0, 4.0]") == 3 and first[0].count("a bad batch") == 2
    counts = {n: f"{{'{way}': {n}}}" for n in (12, 6)}
    assert first[1] == second[1] == f"[2.0, 4.0, 6.0, 8.0] {counts[12]}"
    assert first[2] == second[2] == (
        f"[[6.0, 2.0], [0.0, 2.0], [0.0, 2.0], [6.0, 2.0]] {counts[6]}")
    assert first[3] == second[3] and first[3].endswith(" True False"), output


@pytest.mark.parametrize("way", ["nccl", "ipc"])
def test_a_hang_ends(way: str) -> None:
    """What another GPU does not take part in, or a GPU does not end, ends on all ranks after the
    time that operations may take."""
    said, output = _said("hangs", **_OFF[way])
    assert [len(lines) for lines in said] == [2, 2], output
    assert all("Error" in text for lines in said for text in lines), output
    assert any("DeadlineExceededError" in lines[0] and " for 3 s" in lines[0] for lines in said), (
        output)


@pytest.mark.parametrize(("way", "what"), [("nccl", "NCCL failed"),
                                           ("ipc", "cudaErrorIllegalAddress")])
def test_a_failure_ends_all(way: str, what: str) -> None:
    """A failure of NCCL or of the GPU on one rank is an error on all, also in later steps."""
    said, output = _said("breaks", **_OFF[way])
    assert all(len(lines) == 2 for lines in said), output
    assert all("Error" in text and what in text for lines in said for text in lines), output


@pytest.mark.parametrize(("path", "why"), [
    ("/no/such/libnccl.so.2", "no/such"), ("0", "HPCFLOW_NCCL=0"),
    (ctypes.util.find_library("m"), "undefined symbol: nccl")])
def test_a_library_that_is_not_there(path: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is said in one line, for the reason that the first rank gives."""
    monkeypatch.setattr(config.flags, "nccl", path)
    nccl.load.cache_clear()
    found = nccl.load()
    nccl.load.cache_clear()
    assert isinstance(found, str) and why in found and "\n" not in found


@pytest.mark.parametrize("way", ["nccl", "ipc"])
@pytest.mark.parametrize("when", ["between", "amid"])
def test_ranks_that_are_left_go_on(when: str, way: str) -> None:
    """With GPUs linked anew, also where the lost one leaves theirs in an operation."""
    done = run("link_shrinks.py", 3, when, options=("--with-ft", "ulfm"),
               HPCFLOW_FAULT_TOLERANCE="shrink", HPCFLOW_HEALTH_SECONDS="0.25",
               HPCFLOW_HEALTH_TIMEOUT="4", **_OFF[way])
    output = done.stdout[-3000:] + done.stderr[-3000:]
    if "with-ft" in done.stderr:
        pytest.skip(f"this MPI has no user-level failure mitigation (ULFM): {done.stderr}")
    lines = sorted(re.findall(r"^rank (\d): (.*)$", done.stdout, re.M))
    seen = "[3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 2.0]"
    assert lines == [(k, f"{seen} {{'{way}': 5}} 2") for k in "01"], output


# ---------------------------------------------------------------- the stand-in itself


class _Pair:
    """Two ranks of a link in this process, on GPUs of their own."""

    def __init__(self) -> None:
        from gpu_ring.fake_nccl import FakeNccl
        from gpu_ring.stand_in import StandInGpu

        self.gpus = [StandInGpu(i) for i in (0, 1)]
        self.fakes = [FakeNccl(gpu) for gpu in self.gpus]
        self.libraries = [nccl.Library(fake, "stand-in") for fake in self.fakes]
        name = self.libraries[0].unique_id()
        self.comms = [library.open(name, 2, k) for k, library in enumerate(self.libraries)]
        self.streams = [gpu.xp.cuda.Stream() for gpu in self.gpus]

    def array(self, rank: int, content: list[float]) -> Any:
        """An array on a GPU, and its address."""
        with self.streams[rank]:
            return self.gpus[rank].xp.asarray(content, "f")

    def reduce(self, rank: int, array: Any, count: int, stream: Any = None) -> Any:
        """Launch, and let the library take it; the event behind it."""
        stream = stream or self.streams[rank]
        self.comms[rank].all_reduce(array.data.ptr, array.data.ptr, count, 7, nccl.SUM, stream.ptr)
        while not self.comms[rank].is_ready():
            pass
        event = self.gpus[rank].xp.cuda.Event()
        event.record(stream)
        return event


@pytest.fixture
def pair() -> Iterator[_Pair]:
    """Two ranks, joined."""
    made = _Pair()
    assert all(comm.is_ready() for comm in made.comms)
    yield made


def test_results_come_when_all_have_launched(pair: _Pair) -> None:
    """Not before."""
    first, second = pair.array(0, [1, 2]), pair.array(1, [10, 20])
    event = pair.reduce(0, first, 2)
    assert not any(event.done for _ in range(5))
    pair.reduce(1, second, 2)
    assert any(event.done for _ in range(5))
    assert first._data.tolist() == [11, 22]


def test_different_counts_are_found(pair: _Pair) -> None:
    """GPUs would hang, or write beside the array."""
    event = pair.reduce(0, pair.array(0, [1, 2]), 2)
    pair.reduce(1, pair.array(1, [1, 2]), 1)
    with pytest.raises(RuntimeError, match="ranks launch different things"):
        _ = event.done


def test_misuse_is_found(pair: _Pair) -> None:
    """A stream of another GPU; a launch before the last one is taken; use after the end."""
    array = pair.array(0, [1, 2])
    with pytest.raises(RuntimeError, match="not of the communicator's GPU"):
        pair.reduce(0, array, 2, pair.streams[1])
    arguments = (array.data.ptr, array.data.ptr, 2, 7, nccl.SUM, pair.streams[0].ptr)
    pair.comms[0].all_reduce(*arguments)
    with pytest.raises(RuntimeError, match="not ready"):
        pair.comms[0].all_reduce(*arguments)
    handle = ctypes.c_void_p(pair.comms[0]._handle.value)
    pair.comms[0].abort()
    with pytest.raises(nccl.NcclError, match="aborted"):
        pair.comms[0].is_ready()
    with pytest.raises(RuntimeError, match="after its end"):
        pair.libraries[0].call("CommAbort", handle)


def test_one_gpu_twice_is_refused() -> None:
    """As NCCL does."""
    from gpu_ring.fake_nccl import FakeNccl
    from gpu_ring.stand_in import StandInGpu

    libraries = [nccl.Library(FakeNccl(StandInGpu(0)), "stand-in") for _ in range(2)]
    name = libraries[0].unique_id()
    comms = [library.open(name, 2, k) for k, library in enumerate(libraries)]
    with pytest.raises(nccl.NcclError):
        comms[0].is_ready()
