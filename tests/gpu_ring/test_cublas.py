"""Products by cuBLAS: on a GPU by the library, else by what stands in for it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gpu_ring.cases import cases_by_type, differences, placing
from gpu_ring.conftest import real_gpus
from gpu_ring.fake_cublas import FakeCublas

import hpcflow as hf
from hpcflow.kernels.cublas import library, products
from hpcflow.resources.variables import last_move

OPS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "SparseMatMul", "BlockLSTM", "Conv2D",
       "Conv2DBackpropInput", "Conv2DBackpropFilter")


@pytest.fixture
def cublas(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCublas | None]:
    """The stand-in for the library; None where it is the real one."""
    if real_gpus():
        assert library.load() is not None
        yield None
        return
    fake, of = FakeCublas(), products.of
    monkeypatch.setattr(products, "of", functools.cache(
        lambda xp: of(xp) if xp is np else products.by_library(xp, fake)))
    yield fake


@pytest.mark.parametrize("op", OPS)
def test_it_computes_the_same(op: str, cublas: FakeCublas | None) -> None:
    wrong = [text for case in cases_by_type()[op] for text in differences(case)]
    assert not wrong, "\n".join(wrong)
    assert cublas is None or cublas.calls


@pytest.fixture
def device() -> Iterator[Any]:
    """The GPU, with its stream as the current one."""
    from hpcflow.runtime.executor.device import make_devices

    found = next(d for d in make_devices("/job:x/replica:0/task:0", None) if d.type == "GPU")
    with found.streams.compute:
        yield found


# Of a [4, 3, 5, 6] array: how a factor is cut out of it.
VIEWS = {
    "whole": lambda x: x, "one": lambda x: x[0, 0], "every other row": lambda x: x[:, :, ::2],
    "every other column": lambda x: x[..., ::2], "columns first": lambda x: x.swapaxes(2, 3),
    "part": lambda x: x[1:3, :2, 1:4, 2:5], "one row": lambda x: x[:, :, :1],
    "one column": lambda x: x[..., 2:3], "every other batch": lambda x: x[:, ::2],
    "batches exchanged": lambda x: x.swapaxes(0, 1), "from its end": lambda x: x[..., ::-1, :],
    "one batch": lambda x: x[1:2], "no batch": lambda x: x[:0], "no column": lambda x: x[..., :0],
}  # fmt: skip


def test_factors_that_are_broadcast(device: Any, cublas: FakeCublas | None) -> None:
    numbers = np.arange(24, dtype="f").reshape(4, 1, 2, 3)
    seen = device.xp.broadcast_to(device.to_device(numbers), (4, 5, 2, 3))
    b = np.arange(60, dtype="f").reshape(4, 5, 3, 1)
    found = device.to_host(products.of(device.xp)(seen, device.to_device(b)))
    np.testing.assert_array_equal(found, numbers @ b)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_factors_of_any_layout(dtype: str, device: Any,
                               cublas: FakeCublas | None) -> None:
    product = products.of(device.xp)
    numbers = np.random.default_rng(3).standard_normal((4, 3, 5, 6)).astype(dtype)
    there = device.to_device(numbers)
    for (name, view), flip in itertools.product(VIEWS.items(), (False, True)):
        a = view(numbers)
        for batch in (a.shape[:-2], (1,) * (a.ndim - 2), ()):
            shape = (*batch, a.shape[-2] if flip else a.shape[-1], 7)
            b = np.random.default_rng(4).standard_normal(shape).astype(dtype)
            wanted = (a.swapaxes(-1, -2) if flip else a) @ b
            for swapped in (False, True):
                other = device.to_device(b.swapaxes(-1, -2).copy() if swapped else b)
                found = device.to_host(product(view(there), other, flip_a=flip, flip_b=swapped))
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def test_outputs_that_are_given(device: Any, cublas: FakeCublas | None) -> None:
    product = products.of(device.xp)
    a, b = np.arange(6, dtype="f").reshape(2, 3), np.arange(12, dtype="f").reshape(3, 4)
    whole = device.to_device(np.zeros((2, 8), "f"))
    for part in (slice(0, 4), slice(None, None, 2)):
        out = whole[:, part]
        assert product(device.to_device(a), device.to_device(b), out=out) is out
        np.testing.assert_array_equal(device.to_host(whole)[:, part], a @ b)
    with pytest.raises(ValueError, match="inner dimensions"):
        product(device.to_device(a), device.to_device(a))


@pytest.mark.parametrize("served", [True, False])
def test_a_large_descent_stores_no_gradient(served: bool, request: Any,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """It is added to the variable where that is, in a graph too, by the library or without it."""
    cublas = request.getfixturevalue("cublas") if served else None
    if cublas is not None:
        monkeypatch.setattr(products, "adding", lambda xp: products.adding_by_library(xp, cublas))
    drawn, found = np.random.default_rng(0), []
    images = drawn.standard_normal((8, 1100)).astype(np.float32)
    matrices = [0.03 * drawn.standard_normal(dims).astype(np.float32)
                for dims in ((1100, 1000), (1000, 1100))]
    for gpus in (0, 1):
        with hf.Graph().as_default(), hf.Session(config=hf.ConfigProto(
                device_count={"GPU": gpus})) as session:
            x = hf.placeholder(hf.float32, images.shape)
            weights = [hf.Variable(m) for m in matrices]
            y = hf.matmul(hf.nn.relu(hf.matmul(x, weights[0])), weights[1])
            loss = hf.reduce_mean(hf.square(y - x))
            train = hf.train.GradientDescentOptimizer(0.5).minimize(loss)
            session.run(hf.global_variables_initializer())
            with placing() as placed:
                session.run(train, {x: images})
            where = [d for type_, d in placed.values() if type_ == "ApplyGradientDescent"]
            assert len(where) == 2 and all(("GPU" in d) == bool(gpus) for d in where)
            moves = last_move()
            for _ in range(5):
                session.run(train, {x: images})
            assert last_move() == moves
            if gpus:
                [gpu] = [d for d in session._engine.task.devices if d.type == "GPU"]
                assert sum(r.launches for r in gpu.recorded) >= 3, [
                    r.describe() for r in gpu.recorded]
            found.append([*session.run(weights), session.run(loss, {x: images})])
    for mine, theirs in zip(*found):
        np.testing.assert_allclose(theirs, mine, rtol=1e-4, atol=1e-6)
