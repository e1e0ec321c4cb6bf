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
from hpcflow.kernels.random import device_numbers, device_rejection

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


DRAWING = {"RandomUniformInt", "Multinomial", "RandomShuffle", "RandomGamma", "RandomPoisson",
           "RandomPoissonV2", "ParameterizedTruncatedNormal", *[
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


def agree(build: Callable[[], Any], feeds: Callable[[], dict] = dict) -> list[Any]:
    """Both devices draw the same, and other numbers in each run; what the GPU drew first."""
    cpu, gpu = on_both(build, feeds)
    for mine, theirs in zip(cpu, gpu):
        for a, b in zip(mine, theirs, strict=True):
            close(a, b)
    if any(a.size > 9 for a in gpu[0]):
        assert any((a != b).any() for a, b in zip(gpu[0], gpu[1]))
    return gpu[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gamma(dtype: str) -> None:
    """For one alpha and for many, fed or known, extreme ones among them."""
    alphas = np.array([1e-3, 0.3, 1.0, 1.5, 70.0, 0.0])
    given: list[Any] = []

    def build() -> list:
        given[:] = [hf.placeholder(dtype, [6])]
        return [hf.raw_ops.RandomGamma(shape=[3, 33], alpha=given[0], seed=3, seed2=4), *[
            hf.raw_ops.RandomGamma(shape=shape, alpha=hf.constant(alpha, dtype), seed=5, seed2=1)
            for alpha in (0.2, 1.0, 8.0) for shape in ([101], [0, 2])],
            hf.random_gamma([], [0.5, 9.0], 2.0, dtype, seed=1)]

    found = agree(build, lambda: {given[0]: alphas})
    assert not found[0][..., -1].any() and (found[0][..., 2] > 0).any()


@pytest.mark.parametrize("dtype", [*DTYPES, "int32", "int64"])
def test_poisson(dtype: str) -> None:
    rates = np.array([0.0, 0.2, 7.5, 10.0, 45.0, 1e4, 1e6, 3e9, 1e15, np.inf])
    given: list[Any] = []

    def build() -> list:
        given[:] = [hf.placeholder(hf.float64, [10])]
        return [hf.raw_ops.RandomPoissonV2(shape=[7, 33], rate=given[0], dtype=dtype, seed=3,
                                           seed2=4),
                hf.raw_ops.RandomPoissonV2(shape=[101], rate=hf.constant(12), dtype=dtype, seed=1,
                                           seed2=4),
                hf.random_poisson(hf.constant(3.5, hf.float32), [50], dtype, seed=2)]

    found = agree(build, lambda: {given[0]: rates})[0].astype(np.float64)
    most = np.inf if "float" in dtype else np.iinfo(dtype).max
    assert not found[..., 0].any() and (found[..., -1] == most).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_numbers_between_bounds(dtype: str) -> None:
    """Each way of drawing, on both sides, with parameters for all batches or each."""
    low = np.array([-1.0, -np.inf, 3.0, -0.1, 6.0, -np.inf, -5.0, -np.inf])
    high = np.array([1.0, 0.5, np.inf, 0.2, 6.1, -4.0, -4.5, np.inf])
    given: list[Any] = []

    def build() -> list:
        given[:] = [hf.placeholder(dtype, [8]), hf.placeholder(dtype, [8])]
        draw, many = hf.raw_ops.ParameterizedTruncatedNormal, hf.constant(np.arange(8.0), dtype)
        of = [hf.constant(v, dtype) for v in (0.0, 1.0)]
        return [draw(shape=[8, 5, 7], means=of[0], stdevs=of[1], minvals=given[0],
                     maxvals=given[1], seed=1, seed2=2),
                draw(shape=[8, 9], means=many, stdevs=of[1], minvals=of[0], maxvals=many + 1,
                     seed=1, seed2=2),
                draw(shape=[3, 0], means=of[0], stdevs=of[1], minvals=of[0], maxvals=of[1])]

    found = agree(build, lambda: {given[0]: low, given[1]: high})[0].reshape(8, -1)
    low, high = low.astype(found.dtype), high.astype(found.dtype)
    assert (found >= low[:, None]).all() and (found <= high[:, None]).all()


@pytest.mark.parametrize("op, wrong", [("gamma", [2.0, -1.0]), ("poisson", [np.nan, 1.0]),
                                       ("between", [-1.0, 1.0])])
def test_parameters_without_numbers(op: str, wrong: list[float]) -> None:
    """They are found on the device, and named with the fetches."""
    with hf.Graph().as_default(), hf.Session() as session:
        fed = hf.placeholder(hf.float32, [2])
        raw, numbers = hf.raw_ops, [hf.constant(v, hf.float32) for v in (0.0, -2.0, 2.0)]
        with hf.device("/gpu:0"):
            fetch = {"gamma": lambda: raw.RandomGamma(shape=[3], alpha=fed),
                     "poisson": lambda: raw.RandomPoisson(shape=[3], rate=fed),
                     "between": lambda: raw.ParameterizedTruncatedNormal(
                         [2, 4], numbers[0], fed, *numbers[1:])}[op]()
        assert np.isfinite(session.run(fetch, {fed: np.abs(np.nan_to_num(wrong))})).all()
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"negative|must be positive"):
            session.run(fetch, {fed: wrong})


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
                                    device_numbers.class_kernel("int64"),
                                    *[device_rejection.kernel_of("gamma", d) for d in DTYPES],
                                    *[device_rejection.kernel_of("poisson", d) for d in (
                                        *DTYPES, "int32", "int64")],
                                    *[device_rejection.between_kernel(d) for d in DTYPES]])
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
