"""Random numbers that a kernel draws on the GPU: those of the CPU, in every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.cases import placing
from gpu_ring.conftest import real_gpus

import hpcflow as hf
from hpcflow.kernels.random import device_numbers

OPS = {"RandomUniform": "uniform", "RandomStandardNormal": "normal",
       "TruncatedNormal": "truncated"}
DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_those_of_the_cpu(op: str, dtype: str) -> None:
    """The kernel compiles; a GPU, if there is one, or the stand-in runs it, in a graph too."""
    assert real_gpus() or not nvrtc.errors(device_numbers.kernel_of(OPS[op], dtype).text())
    shapes: list[Any] = [[], [0, 3], [5], [33, 1001]]
    with hf.Graph().as_default(), hf.Session() as session:
        fetches = []
        for device in ("/cpu:0", "/gpu:0"):
            with hf.device(device):
                fetches.append([hf.identity(getattr(hf.raw_ops, op)(
                    shape=np.array(shape, np.int32), dtype=dtype, seed=3, seed2=4))
                    for shape in shapes])
        runs = [session.run(fetches) for _ in range(4)]
    digits = 0 if op == "RandomUniform" else 2e-3 if dtype == "float16" else (
        2e-2 if dtype == "bfloat16" else 1e-5)
    for cpu, gpu in runs:
        for mine, theirs in zip(cpu, gpu):
            np.testing.assert_allclose(theirs.astype(float), mine.astype(float), digits, digits)
    assert (runs[0][1][2] != runs[1][1][2]).any()


def on_both(build: Callable[[], Any], feeds: Callable[[], dict] = dict) -> list[list[Any]]:
    """What both devices draw, in four runs: with CUDA graphs where they serve."""
    found = []
    for gpus in (0, 1):
        with hf.Graph().as_default():
            fetches = build()
            config = hf.ConfigProto(device_count={"GPU": gpus})
            with placing() as placed, hf.Session(config=config) as session:
                found.append([session.run(fetches, feeds()) for _ in range(4)])
            drawing = [d for type_, d in placed.values() if type_ in DRAWING]
            assert drawing and all(("GPU" in d) == bool(gpus) for d in drawing)
    return found


DRAWING = {"RandomUniformInt", "Multinomial", "RandomShuffle", *[
    f"Stateless{name}{version}" for version in ("", "V2") for name in (
        "RandomUniform", "RandomNormal", "TruncatedNormal", "RandomUniformInt",
        "RandomUniformFullInt")]}


def close(a: Any, b: Any) -> None:
    """Whole numbers are equal, others nearly."""
    assert a.dtype == b.dtype and a.shape == b.shape
    digits = 0 if a.dtype.kind in "iu" else {2: 2e-2, 4: 1e-5, 8: 1e-9}[a.dtype.itemsize]
    np.testing.assert_allclose(b.astype(float), a.astype(float), digits, digits)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (33, 101)])
def test_whole_numbers(dtype: str, shape: tuple[int, ...]) -> None:
    bounds = [(-3, 11), (0, np.iinfo(dtype).max), (np.iinfo(dtype).min, np.iinfo(dtype).max)]

    def build() -> list:
        return [hf.random_uniform(shape, low, high, dtype, seed=3) for low, high in bounds]

    cpu, gpu = on_both(build)
    for mine, theirs in zip(cpu, gpu):
        for a, b in zip(mine, theirs):
            close(np.asarray(a), np.asarray(b))
    if np.prod(shape) > 1:
        assert (gpu[0][0] != gpu[1][0]).any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint32",
                                   "uint64"])
@pytest.mark.parametrize("known", [True, False])
def test_numbers_of_given_seeds(dtype: str, known: bool) -> None:
    """Known when the step is compiled, which computes smaller arrays then, or fed: they change with
    every run."""
    raw, runs = hf.raw_ops, iter(range(100))
    seeds: list[Any] = []

    def build() -> list:
        seed = hf.constant([1, 2], hf.int64) if known else hf.placeholder(hf.int64, [2])
        seeds[:] = [seed]
        shape = [400, 401] if known else [9, 101]
        if dtype.startswith("float"):
            return [op(shape=shape, seed=seed, dtype=dtype) for op in (
                raw.StatelessRandomUniform, raw.StatelessRandomNormal,
                raw.StatelessTruncatedNormal)]
        full = raw.StatelessRandomUniformFullInt(shape=shape, seed=seed, dtype=dtype)
        if dtype.startswith("u"):
            return [full]
        low, high = (hf.constant(v, dtype) for v in (-2, 99))
        return [full, raw.StatelessRandomUniformInt(shape=shape, seed=seed, minval=low,
                                                    maxval=high)]

    cpu, gpu = on_both(build, lambda: {} if known else {seeds[0]: [5, next(runs) % 4]})
    for mine, theirs in zip(cpu, gpu):
        for a, b in zip(mine, theirs):
            close(a, b)
    assert (gpu[0][0] != gpu[3][0]).any() != known


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_classes(dtype: str) -> None:
    """Also of logits that are infinite or undefined, which have no probability."""
    logits = np.random.default_rng(2).standard_normal((5, 37)).astype(np.float32)
    logits[1, 3:20], logits[2, 0], logits[3, -1] = -np.inf, np.nan, np.inf
    given: list[Any] = []

    def build() -> Any:
        given[:] = [hf.placeholder(hf.float32, logits.shape)]
        return [hf.multinomial(given[0], 200, seed=4, output_dtype=dtype)]

    cpu, gpu = on_both(build, lambda: {given[0]: logits})
    for (mine,), (theirs,) in zip(cpu, gpu):
        assert mine.dtype == theirs.dtype and (mine != theirs).mean() < 0.01
    assert not (set(range(3, 20)) & {*gpu[0][0][1]}) and not (gpu[0][0][2] == 0).any()


def test_orders() -> None:
    given: list[Any] = []

    def build() -> Any:
        given[:] = [hf.placeholder(hf.float32, [101, 2])]
        return [hf.random_shuffle(given[0], seed=4)]

    cpu, gpu = on_both(build, lambda: {given[0]: np.arange(202.0).reshape(101, 2)})
    for (mine,), (theirs,) in zip(cpu, gpu):
        np.testing.assert_array_equal(theirs, mine)


@pytest.mark.parametrize("kernel", [device_numbers.kernel_of("integers", "int32"),
                                    device_numbers.kernel_of("integers", "int64"),
                                    device_numbers.class_kernel("int64")])
def test_kernels_compile(kernel: Any) -> None:
    for index in ("int", "long long"):
        assert not nvrtc.errors(kernel.text(index))


@pytest.mark.parametrize("build", [
    lambda: hf.random_uniform([2], hf.placeholder_with_default(3, []), 3, hf.int32),
    lambda: hf.raw_ops.StatelessRandomUniformInt(shape=[2], seed=[1, 2], minval=4, maxval=4),
    lambda: hf.multinomial(hf.placeholder_with_default(np.ones([2, 0], np.float32), [2, None]), 3),
])
def test_bad_input(build: Callable[[], Any]) -> None:
    with hf.Graph().as_default(), hf.Session() as session:
        fetch = build()
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"minval < maxval|num_classes"):
            session.run(fetch)
