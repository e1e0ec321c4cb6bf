"""Kernels with sliding windows that are written out: random geometries, on CPU and device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.test_programs import run
from gpu_ring.test_workloads import gpu_of

import hpcflow as hf
from hpcflow import config
from hpcflow.loops import cuda_code

raw = hf.raw_ops
Fetches = tuple[list, dict]
TOLERANCE = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12, "int32": 0, "int8": 0, "uint16": 0}


def numbers(random: np.random.Generator, dims: tuple, dtype: str) -> np.ndarray:
    """Few different ones, so that maxima are met more than once."""
    return random.integers(0, 7, dims).astype(dtype)


class Feeds(dict):
    """Values by their placeholders: what is computed of constants is computed on the CPU."""

    def of(self, value: np.ndarray) -> Any:
        """One more placeholder."""
        made = hf.placeholder(value.dtype, value.shape)
        self[made] = value
        return made


def pooling(seed: int, space: int, dtype: str) -> Fetches:
    """Poolings of one random geometry with all gradients; of images, every other window moves over
    the channels too, the others take several channels at once."""
    random, feeds = np.random.default_rng(seed), Feeds()
    moved = space + (space == 2 and seed % 2)
    window, strides = ([int(n) for n in random.integers(1, 4, moved)] + [1] * (space + 1 - moved)
                       for _ in range(2))
    given = {"ksize": [1, *window], "strides": [1, *strides],
             "padding": random.choice(["SAME", "VALID"])}
    dims = (2, *(int(n) for n in random.integers(4, 8, space)), int(random.choice([5, 8, 12])))
    x = feeds.of(numbers(random, dims, dtype))
    suffix = "3D" if space == 3 else ""
    y = getattr(raw, f"MaxPool{suffix}")(input=x, **given)
    dy = feeds.of(numbers(random, tuple(y.shape.as_list()), dtype))
    found = [y, getattr(raw, f"MaxPool{suffix}Grad")(
        orig_input=x, orig_output=y, grad=dy, **given), getattr(raw, f"MaxPool{suffix}GradGrad")(
        orig_input=x, orig_output=y, grad=x * x, **given)]
    if space == 2:
        for in_batch in (False, True):
            found += raw.MaxPoolWithArgmax(input=x, Targmax=random.choice(["int32", "int64"]),
                                           include_batch_in_index=in_batch, **given)
    if dtype.startswith("float"):
        found += [getattr(raw, f"AvgPool{suffix}")(**{"input" if suffix else "value": x}, **given),
                  getattr(raw, f"AvgPool{suffix}Grad")(
                      orig_input_shape=np.int32(dims), grad=dy, **given)]
    return found, feeds


def responses(seed: int, dtype: str) -> Fetches:
    """Local response normalization, narrow and wide, with fewer and more channels."""
    random, feeds = np.random.default_rng(seed), Feeds()
    radius, channels = int(random.integers(0, 7)), int(random.integers(1, 30))
    x, dy, y = (feeds.of(random.standard_normal((2, 3, 4, channels)).astype(dtype))
                for _ in range(3))
    given = {"depth_radius": radius, "alpha": 0.3, "bias": 1.5,
             "beta": random.choice([0.5, 0.75, 0.9])}
    return [raw.LRN(input=x, **given),
            raw.LRNGrad(input_grads=dy, input_image=x, output_image=y, **given)], feeds


def convolutions(seed: int, dtype: str) -> Fetches:
    """A convolution and one of each channel by itself, with gradients, in both data formats."""
    random, feeds = np.random.default_rng(seed), Feeds()
    window, stride, rate = ([int(n) for n in random.integers(1, 4, 2)] for _ in range(3))
    depth = int(random.integers(1, 4))
    first = bool(random.integers(2))
    x = numbers(random, (2, 9, 10, depth), dtype)
    x = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if first else x
    spread = [1, 1, *stride] if first else [1, *stride, 1]
    same = [1, 1, stride[0], stride[0]] if first else [1, stride[0], stride[0], 1]
    given = {"padding": random.choice(["SAME", "VALID"]),
             "data_format": "NCHW" if first else "NHWC"}
    rates = [1, 1, *rate] if first else [1, *rate, 1]
    w, v = (feeds.of(numbers(random, (*window, depth, n), dtype)) for n in (4, 2))
    x = feeds.of(x)
    found = []
    for op, filters, strides in (("Conv2D", w, spread), ("DepthwiseConv2dNative", v, same)):
        settings = {**given, "strides": strides, "dilations": rates}
        y = getattr(raw, op)(input=x, filter=filters, **settings)
        plain = "Conv2DBackprop" if op == "Conv2D" else f"{op}Backprop"
        found += [y, getattr(raw, f"{plain}Input")(
            input_sizes=np.int32(x.shape.as_list()), filter=filters, out_backprop=y, **settings),
            getattr(raw, f"{plain}Filter")(
                input=x, filter_sizes=np.int32(filters.shape.as_list()), out_backprop=y,
                **settings)]
    return found, feeds


def agree(build: Any, seed: int, dtype: str) -> None:
    """What `build` gives is the same on CPU and device."""
    found = []
    for gpus in (0, 1):
        def on(gpus: int = gpus) -> Any:
            with hf.device(f"/{'gpu' if gpus else 'cpu'}:0"):
                return build()

        found.append(run(on, gpus))
    for i, (cpu, gpu) in enumerate(zip(*found, strict=True)):
        assert cpu.dtype == gpu.dtype
        np.testing.assert_allclose(
            gpu.astype(float), cpu.astype(float), TOLERANCE[dtype],
            TOLERANCE[dtype] * max(1.0, np.abs(cpu.astype(float)).max(initial=0)),
            err_msg=f"seed {seed}, fetch {i}")


@pytest.fixture(autouse=True)
def without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library would compute the same, but for the gradients of numbers that are no result of
    LRN, or are NaN."""
    monkeypatch.setattr(config.flags, "cudnn", "0")


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("space", [2, 3])
def test_pooling(space: int, dtype: str) -> None:
    for seed in range(4):
        agree(lambda seed=seed: pooling(seed, space, dtype), seed, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_responses(dtype: str) -> None:
    for seed in range(6):
        agree(lambda seed=seed: responses(seed, dtype), seed, dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_convolutions(dtype: str) -> None:
    for seed in range(6):
        agree(lambda seed=seed: convolutions(seed, dtype), seed, dtype)


def test_arrays_that_begin_anywhere_and_large_windows() -> None:
    """Channels that are read at once must begin at a multiple of their bytes; more than 255
    elements of a window do not fit in a byte."""
    drawn = np.random.default_rng(0).integers(0, 99, 2 * 18 * 18 * 4 + 1).astype(np.float32)

    def build() -> tuple:
        given = hf.placeholder(hf.float32, drawn.shape)
        x = hf.reshape(given[1:], [2, 18, 18, 4])
        y = hf.nn.max_pool(x, [1, 17, 17, 1], [1, 1, 1, 1], "VALID")
        mean = hf.nn.avg_pool(x, [1, 17, 17, 1], [1, 1, 1, 1], "VALID")
        return [y, mean, *hf.gradients([y, mean], x)], {given: drawn}

    agree(build, 0, "float32")


def test_a_nan_stays_one() -> None:
    """The largest of numbers with a NaN is that, and its gradient goes nowhere."""
    def build() -> tuple:
        x = hf.placeholder(hf.float32, [1, 2, 2, 1])
        y = hf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
        return [y, *hf.gradients(y, x)], {x: np.float32([[[[1], [np.nan]], [[3], [2]]]])}

    y, dx = run(build, 1)
    assert np.isnan(y).all()
    assert not dx.any()


@pytest.mark.usefixtures("one_by_one")
def test_one_launch_each() -> None:
    def build() -> Fetches:
        x = hf.placeholder(hf.float32, [2, 6, 6, 4])
        dims = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
        y = raw.MaxPool(input=x, **dims)
        z = raw.LRN(input=x)
        mean = raw.AvgPool(value=x, **dims)
        ops = [y, raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=y, **dims), z, mean,
               raw.LRNGrad(input_grads=x, input_image=x, output_image=z),
               raw.AvgPoolGrad(orig_input_shape=[2, 6, 6, 4], grad=mean, **dims)]
        return [op.op for op in ops], {x: np.ones((2, 6, 6, 4), np.float32)}

    with hf.Graph().as_default(), hf.Session() as session:
        fetches, feeds = build()
        session.run(fetches, feeds)
        before = gpu_of(session).launches
        session.run(fetches, feeds)
        launches = gpu_of(session).launches - before
        assert launches <= len(fetches) + 1  # two for the gradient of maxima


@pytest.mark.parametrize("gpus", [0, 1])
def test_wrong_shapes(gpus: int) -> None:
    """What is wrong is said as on the CPU."""
    dims = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}

    def build() -> tuple:
        x, dy = (hf.placeholder(hf.float32) for _ in range(2))
        return raw.MaxPoolGrad(orig_input=x, orig_output=dy, grad=dy, **dims), {
            x: np.ones((1, 4, 4, 1)), dy: np.ones((1, 3, 2, 1))}

    with pytest.raises(hf.errors.InvalidArgumentError, match=r"orig_output must be \[1,2,2,1\]"):
        run(build, gpus)


@pytest.mark.usefixtures("stand_in_only")
def test_written_kernels_compile() -> None:
    """Every kernel that this module's tests have run is CUDA C++, for small and large arrays."""
    from gpu_ring.stand_in import FormPrograms

    run(lambda: pooling(0, 3, "float16"), 1)
    run(lambda: convolutions(1, "float64"), 1)
    run(lambda: responses(1, "float32"), 1)
    kernels = list(FormPrograms.written)
    texts = [k.text() for k in kernels] + [kernels[-1].text("long long")]
    assert len(texts) > 10
    wrong = [found for t in texts if (found := nvrtc.errors(t, *cuda_code.OPTIONS))]
    assert not wrong, wrong[0]
