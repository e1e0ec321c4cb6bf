"""Registration from outside the package: the programs of examples/extending, and their claims."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_accelerator
import gradcheck
import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow import extending
from hpcflow.runtime.executor import device as devices

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "extending"
EXAMPLES = sorted(p.stem for p in FOLDER.glob("*.py"))
rng = np.random.default_rng(5)


def load(name: str) -> ModuleType:
    """The example as a module; once per process, because it registers."""
    key = f"extending_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


def run(fetches: Any, feeds: Any = None) -> Any:
    with hf.Session() as session:
        return session.run(fetches, feeds)


def test_documented() -> None:
    named = re.findall(r"examples/extending/(\w+)\.py", (ROOT / "docs/extending.md").read_text())
    assert sorted(set(named)) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_as_a_program(name: str) -> None:
    if name == "numba_kernel":
        pytest.importorskip("numba")
    done = subprocess.run([sys.executable, str(FOLDER / f"{name}.py")], capture_output=True,
                          text=True, timeout=patience(), env={"PYTHONPATH": str(ROOT), "PATH": ""})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_op_with_gradient(graph) -> None:
    smoothstep = load("add_op").smoothstep
    x = rng.uniform(0.1, 0.9, (2, 3))
    for dtype in (hf.float16, hf.float32, hf.float64):
        y = smoothstep(hf.constant(x, dtype))
        assert y.dtype is dtype and y.shape.as_list() == [2, 3]
        np.testing.assert_allclose(run(y), 3 * x**2 - 2 * x**3, rtol=5e-3)
    gradcheck.check_gradient(smoothstep, x)
    with pytest.raises(TypeError, match="int32"):
        smoothstep(hf.constant([1]))


def test_shape_function(graph) -> None:
    outer = load("add_shape_function").outer
    a = hf.placeholder(hf.float64, [None])
    assert outer(a, hf.zeros([3], hf.float64)).shape.as_list() == [None, 3]
    with pytest.raises(ValueError, match="rank"):
        outer(hf.zeros([2, 2]), hf.zeros([2]))
    unknown = hf.placeholder(hf.float64)
    product = outer(unknown, unknown)
    assert product.shape.as_list() == [None, None]
    with pytest.raises(hf.errors.InvalidArgumentError, match="expected two vectors"):
        run(product, {unknown: np.ones((2, 2))})
    gradcheck.check_gradient(outer, rng.normal(size=3), rng.normal(size=2))


def test_numba(graph) -> None:
    pytest.importorskip("numba")
    load("numba_kernel")
    x = rng.normal(size=(3, 4)).astype(np.float32)
    wanted, last = np.empty(12), 0.0
    for i, v in enumerate(x.ravel()):
        wanted[i] = last = v + 0.25 * last
    got = run(extending.raw_ops.Decaying(x.T.copy().T, rate=0.25))
    np.testing.assert_allclose(got, wanted.reshape(3, 4), rtol=1e-5)
    gradcheck.check_gradient(lambda v: extending.raw_ops.Decaying(v, rate=0.25),
                             rng.normal(size=5))


def test_ctypes(graph) -> None:
    load("ctypes_kernel")
    x = rng.normal(size=(2, 5))
    np.testing.assert_allclose(run(extending.raw_ops.CErf(x)), run(hf.erf(x)), rtol=1e-12)
    assert run(extending.raw_ops.CErf(np.zeros((0, 2)))).shape == (0, 2)


class Launches:
    """CuPy's RawKernel for the fake accelerator: checks the launch, computes in Python."""

    def __init__(self, device: Any, source: str, name: str) -> None:
        assert f"void {name}(" in source
        self.device = device

    def __call__(self, grid: tuple, block: tuple, arguments: tuple) -> None:
        x, y, n = arguments
        assert isinstance(x, fake_accelerator.FakeArray) and x.shape == y.shape
        assert isinstance(n, np.uint32) and grid[0] * block[0] >= n > (grid[0] - 1) * block[0]
        y._data[...] = x._data * 2
        self.device.raw_launches += 1


class FakeGpu(fake_accelerator.FakeDevice):
    """The fake accelerator in the place of a GPU."""

    type = "GPU"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.raw_launches = 0
        made.append(self)
        self.xp.RawKernel = lambda source, name: Launches(self, source, name)


made: list[FakeGpu] = []


def test_raw_kernel(graph, monkeypatch) -> None:
    load("gpu_kernel")
    monkeypatch.setitem(devices._TYPES, "GPU", (FakeGpu, lambda: 1))
    x = hf.placeholder(hf.int32)
    with hf.device("/cpu:0"):
        on_host = extending.raw_ops.Xorshift(x)
    with hf.device("/gpu:0"):
        on_gpu = extending.raw_ops.Xorshift(x)
    values = np.arange(1, 701, dtype=np.int32)
    host, gpu = run([on_host, on_gpu], {x: values})
    assert host[0] == 270369  # the first number of the sequence from 1
    np.testing.assert_array_equal(gpu, values * 2)
    assert made[-1].raw_launches == 1


def test_device_type(graph) -> None:
    example = load("add_device")
    found: list = []

    class Counted(example.BoxDevice):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(self)

    extending.register_device_type(Counted, lambda: 1)
    try:
        with pytest.raises(ValueError, match="registered already"):
            extending.register_device_type(example.BoxDevice, lambda: 1)
        x = hf.placeholder(hf.float32, [2, 2])
        with hf.device("/device:BOX:0"):
            y = hf.matmul(x, x)
        z = hf.reduce_sum(y)
        with hf.Session() as session:
            assert session.run(z, {x: [[1.0, 2.0], [3.0, 4.0]]}) == 54.0
        assert found[0].copies == 2  # the matrix goes in, the product comes out
    finally:
        extending.unregister_device_type("BOX")
