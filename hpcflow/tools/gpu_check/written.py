"""The kernels that are written out: what they compute against the CPU, and how fast."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Checks = Iterator[tuple[str, Callable[[], dict[str, Any]]]]


def checks() -> Checks:
    """Names and checks against the CPU; the tests' folder is on the path."""
    _without_cudnn()
    yield from _windows()
    yield from _rows()
    yield from _numbers()
    yield from _networks()
    from gpu_ring import test_changing_steps, test_ctc, test_cublas

    yield "descent", functools.partial(_passing, lambda _: (
        test_cublas.test_a_large_descent_stores_no_gradient(False, None, None)), None)
    yield "changing steps", functools.partial(
        _passing, lambda _: test_changing_steps.test_steps_are_those_of_the_cpu(), None)
    for version in (1, 2):
        yield f"CTC version {version}", functools.partial(
            _passing, functools.partial(test_ctc.test_it_is_that_of_the_cpu, attrs={}), version)


def times() -> Checks:
    """Names and measurements of some kernels on a GPU."""
    _without_cudnn()
    for name, build, moved in _sizes():
        yield name, functools.partial(_timed, build, moved)


def _without_cudnn() -> None:
    """Leave the library out, which would compute the same."""
    os.environ["HPCFLOW_CUDNN"] = "0"
    from hpcflow import config

    config.flags.reload()


def _windows() -> Checks:
    from gpu_ring import test_windows as t

    made: dict[str, Callable[[int, str], Any]] = {
        "pooling": lambda seed, dtype: t.pooling(seed, 2, dtype),
        "pooling of volumes": lambda seed, dtype: t.pooling(seed, 3, dtype),
        "responses": t.responses, "convolutions": t.convolutions}
    for name, build in made.items():
        for dtype in ("float16", "float32", "float64"):
            if (name, dtype) != ("responses", "float64"):
                yield f"{name} of {dtype}", functools.partial(_agreeing, t.agree, build, dtype)


def _agreeing(agree: Callable[..., None], build: Callable[[int, str], Any],
              dtype: str) -> dict[str, Any]:
    for seed in range(6):
        agree(functools.partial(build, seed, dtype), seed, dtype)
    return {}


def _networks() -> Checks:
    """Recurrent networks step by step, and by cuDNN, which must have computed them."""
    from gpu_ring import test_networks as t

    for by_library in (False, True):
        title = "by cuDNN" if by_library else "step by step"
        for name, attrs in t.FORMS.items():
            yield f"networks {title}: {name}", functools.partial(
                _network, functools.partial(t.agree, **attrs), by_library)
        yield f"networks {title}: dropout", functools.partial(
            _network, t.check_dropout, by_library)


def _network(check: Callable[[], None], by_library: bool) -> dict[str, Any]:
    from hpcflow import config
    from hpcflow.kernels.cudnn import library, recurrent

    config.flags.cudnn = "" if by_library else "0"
    try:
        recurrent._refused.clear()
        if by_library and library.load() is None:
            return {"cuDNN": "not installed"}
        check()
        refused = sorted(net.mode for net, _ in recurrent._refused)
        return {"failed": f"cuDNN refuses {refused}" if refused else None}
    finally:
        config.flags.cudnn = "0"


def _rows() -> Checks:
    from gpu_ring import test_repeated_rows as t
    from gpu_ring import test_sparse_updates as updates

    for op in updates.OPS:
        yield op, functools.partial(
            _passing, lambda op: updates.test_updates_are_those_of_the_cpu(op, "float32"), op)
    for op in t.SCATTERS:
        yield op, functools.partial(_passing, t.test_scatters, op)
    for op in t.SEGMENTS + t.GATHERED:
        yield op, functools.partial(_passing, t.test_segments, op)


def _numbers() -> Checks:
    from gpu_ring import test_random as t

    for op in t.OPS:
        for dtype in t.DTYPES:
            yield f"{op} of {dtype}", functools.partial(
                _passing, functools.partial(t.test_numbers_are_those_of_the_cpu, op), dtype)
    for dtype in ("int32", "int64"):
        yield f"whole numbers of {dtype}", functools.partial(
            _passing, functools.partial(t.test_whole_numbers, shape=(33, 101)), dtype)
        yield f"classes of {dtype}", functools.partial(_passing, t.test_classes, dtype)
    for dtype in ("float32", "float64", "int32", "uint64"):
        for known in (False, True):
            yield f"{dtype} of {'known' if known else 'fed'} seeds", functools.partial(
                _passing, functools.partial(t.test_numbers_of_given_seeds, known=known), dtype)


def _passing(test: Callable[[Any], None], op: Any) -> dict[str, Any]:
    test(op)
    return {}


def _sizes() -> Iterator[tuple[str, Callable[[Any], list], int]]:
    """Name, the fetches on the GPU's placeholder of 64 images of 55x55x96, and the bytes that they
    must move."""
    import hpcflow as hf

    raw, size = hf.raw_ops, 64 * 55 * 55 * 96 * 4
    window: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    quarter = 64 * 27 * 27 * 96 * 4
    yield "MaxPool", lambda x: [raw.MaxPool(input=x, **window)], size + quarter
    yield "MaxPoolGrad", lambda x: hf.gradients(raw.MaxPool(input=x, **window), x), 2 * size
    yield "LRN", lambda x: [raw.LRN(input=x, depth_radius=2)], 2 * size
    yield "LRNGrad", lambda x: [raw.LRNGrad(input_grads=x, input_image=x, output_image=x,
                                            depth_radius=2)], 2 * size
    yield "sum of rows by id", lambda x: [hf.math.unsorted_segment_sum(
        hf.reshape(x, [-1, 96]), hf.range(64 * 55 * 55) % 1000, 1000)], size


def _timed(build: Callable[[Any], list], moved: int) -> dict[str, Any]:
    import hpcflow as hf

    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.Variable(np.random.default_rng(0).random((64, 55, 55, 96), np.float32))
        ops = [f.op for f in build(x.read_value())]
        session.run(hf.global_variables_initializer())
        for _ in range(3):
            session.run(ops)
        gpu = next(d for d in session._engine.task.devices if d.type == "GPU")
        gpu.synchronize()
        began = time.perf_counter()
        for _ in range(20):
            session.run(ops)
        gpu.synchronize()
        seconds = (time.perf_counter() - began) / 20
    return {"us": seconds * 1e6, "GB_per_s": moved / seconds / 1e9}

