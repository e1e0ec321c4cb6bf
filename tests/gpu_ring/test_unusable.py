"""GPUs that cannot be used, and why: what the driver says becomes one line, and the CPU serves only
who did not ask for a GPU."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.kernels.cudnn import library
from hpcflow.runtime.executor import device as devices
from hpcflow.runtime.executor import gpus


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


class Machine:
    """CuPy on a machine with GPUs, some of which fail.

    Attributes:
        listing: the error of asking for the GPUs; None if that goes.
        running: GPU -> the error of running a kernel there.
        entered: the GPUs that were made current.
    """

    def __init__(self) -> None:
        self.listing: str | None = None
        self.running: dict[int, str] = {}
        self.versions = {"driver": 12040, "runtime": 13020}
        self.entered: list[int] = []

    def module(self) -> Any:
        """The module."""
        made: Any = types.ModuleType("cupy")
        made.__spec__ = ModuleSpec("cupy", None)
        made.cuda = types.SimpleNamespace(Device=self.device, runtime=types.SimpleNamespace(
            getDeviceCount=self.count, deviceSynchronize=lambda: None,
            driverGetVersion=lambda: self.versions["driver"],
            runtimeGetVersion=lambda: self.versions["runtime"]))
        made.RawKernel = lambda *_: lambda *_: self.run()
        return made

    def count(self) -> int:
        if self.listing:
            raise CUDARuntimeError(self.listing)
        return 4

    def device(self, number: int) -> Any:
        self.entered.append(number)
        return contextlib.nullcontext()

    def run(self) -> None:
        if self.entered[-1] in self.running:
            raise CUDARuntimeError(self.running[self.entered[-1]])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made, kept = Machine(), (gpus.why_nothing_found, gpus.why_not, gpus._warn)
    monkeypatch.setitem(sys.modules, "cupy", made.module())
    for function in kept:
        function.cache_clear()
    yield made
    for function in kept:
        function.cache_clear()


OLD = r"the CUDA driver is too old: it serves CUDA 12\.4, but CuPy comes with 13\.2; update"
TAKEN = "another process has the GPU for itself, or nobody may compute on it"


@pytest.mark.parametrize(("listing", "running", "reason"), [
    ("cudaErrorInsufficientDriver: CUDA driver version is insufficient", "", OLD),
    ("cudaErrorNoDevice: no CUDA-capable device is detected", "", "finds no GPU"),
    ("", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with", OLD),
    ("", "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable", TAKEN),
    ("", "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available", "GPU is too old"),
    ("", "cudaErrorECCUncorrectable:\nuncorrectable ECC error", "no kernel runs on the GPU: CUDAR"),
    ("", "", None),
])
def test_reasons(listing: str, running: str, reason: str | None, machine: Machine) -> None:
    machine.listing = listing or None
    machine.running = dict.fromkeys(range(4), running) if running else {}
    found = gpus.why_none()
    assert "\n" not in found
    assert re.search(reason, found) if reason else not found, found


def test_no_driver(machine: Machine, recwarn: pytest.WarningsRecorder) -> None:
    """A machine without GPUs is nothing to warn of."""
    machine.listing, machine.versions["driver"] = "cudaErrorInsufficientDriver: insufficient", 0
    assert gpus.why_none() == "there is no CUDA driver" and gpus.count() == 0
    assert not recwarn.list


def test_an_old_driver_is_said_once(machine: Machine, recwarn: pytest.WarningsRecorder) -> None:
    machine.listing = "cudaErrorInsufficientDriver: insufficient"
    assert gpus.count() == gpus.count() == 0
    assert [str(w.message)[:40] for w in recwarn.list] == [
        "no GPU is used: the CUDA driver is too o"]


def test_gpus_that_others_have(machine: Machine) -> None:
    """It is said which; only those are tried that are to be used."""
    machine.running = {2: "cudaErrorDevicesUnavailable: busy"}
    with pytest.warns(RuntimeWarning, match="GPU 2 is not used: another process has the GPU"):
        assert gpus.usable([2, 3], gpus.why_not) == [3]
    assert machine.entered == [2, 3]


@pytest.mark.parametrize("soft", [True, False])
def test_the_cpu_serves_only_who_allows_it(soft: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a process found its GPU taken."""
    kind = devices._TYPES["GPU"][0]
    taken = type("Taken", (kind,), {"why_not": staticmethod(lambda number: "it is taken")})
    monkeypatch.setitem(devices._TYPES, "GPU", (taken, lambda: 1))
    gpus._warn.cache_clear()
    with hf.Graph().as_default(), pytest.warns(RuntimeWarning, match="GPU 0 is not used: it is"):
        x = hf.placeholder(hf.float32, [2])
        with hf.device("/gpu:0"):
            bound = x + 2.0
        with hf.Session(config=hf.ConfigProto(allow_soft_placement=soft)) as session:
            feeds = {x: np.zeros(2)}
            if soft:
                assert session.run(bound, feeds).tolist() == [2, 2]
            else:
                with pytest.raises(hf.errors.InvalidArgumentError,
                                   match=r"GPU:0'; no such device is available.*hpcflow doctor"):
                    session.run(bound, feeds)


def test_another_major_version_of_cudnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("g++")
    assert compiler, "g++ is needed, as for the stand-in"
    path = tmp_path / "libcudnn.so.8"
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", str(path), "-"], check=True,
                   input=b"unsigned long cudnnGetVersion(void) { return 8907; }")
    monkeypatch.setattr(config.flags, "cudnn", str(path))
    library._load.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"is cuDNN 8\.9\.7, expected version 9; the plain"):
        assert library.load() is None
    library._load.cache_clear()


def test_too_little_memory_for_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another way may take less; if none does, it is told as too little memory."""
    from hpcflow.kernels.cudnn.choosing import Choice

    def way(result: Any) -> Any:
        def run(xp: Any, *given: Any) -> Any:
            if isinstance(result, Exception):
                raise result
            return result

        return run

    def choose(*ways: Any) -> Choice:
        return Choice(ways, False)

    short, none = MemoryError("no room"), library.NoWayError("no")
    for first in (short, none):
        choice = choose(way(first), way(3))
        choice._is_settled = True
        assert choice(None) == 3
    choice = choose(way(short), way(none))
    choice._is_settled = True
    with pytest.raises(MemoryError, match="no room"):
        choice(None)
