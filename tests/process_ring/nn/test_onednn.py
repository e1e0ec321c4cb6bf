"""The kernels by oneDNN against those of NumPy; skipped where the library is not found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow import config, kernels, raw_ops
from hpcflow.host import blas
from hpcflow.kernels.onednn import library, products

kernels.load()
needs_library = pytest.mark.skipif(library.load() is None, reason="no oneDNN library was found")
RNG = np.random.default_rng(59)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def run(build, *inputs):
    """The op's outputs on arrays."""
    with hf.Graph().as_default(), hf.Session() as session:
        tensors = [hf.placeholder(hf.as_dtype(x.dtype), None) for x in inputs]
        outputs = build(*tensors)
        return session.run(outputs, dict(zip(tensors, inputs)))


def alike(build, *inputs, monkeypatch):
    """Both libraries give the same, as far as single precision goes."""
    found = run(build, *inputs)
    with monkeypatch.context() as patch:
        patch.setattr(config.flags, "onednn", "0")
        expected = run(build, *inputs)
    pairs = zip(found, expected) if isinstance(found, (list, tuple)) else [(found, expected)]
    for a, b in pairs:
        assert a.shape == b.shape and a.dtype == b.dtype
        scale = max(1.0, np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * scale)


CASES = [((2, 9, 8, 3), (3, 2, 3, 16), (2, 1)), ((1, 5, 5, 1), (5, 5, 1, 2), (1, 1)),
         ((3, 4, 9, 17), (1, 1, 17, 5), (1, 1)), ((2, 6, 7, 8), (3, 3, 2, 12), (1, 1)),
         ((2, 11, 8, 4), (4, 3, 4, 1), (4, 3))]


@needs_library
@pairs(
    ("layout", ["NHWC", "NCHW"]),
    ("padding", ["SAME", "VALID"]),
    ("case", CASES),
    ("kind", ["Conv2D", "DepthwiseConv2dNative"]),
)
def test_convolutions(kind, case, padding, layout, monkeypatch):
    dims, window, strides = case
    x, w = normal(*dims), normal(*window)
    steps = [1, *strides, 1]
    if kind != "Conv2D":
        w, steps = normal(*window[:2], dims[3], 3), [1, strides[0], strides[0], 1]
    if layout == "NCHW":
        x, steps = np.moveaxis(x, -1, 1), [1, 1, *steps[1:3]]
    options = {"strides": steps, "padding": padding, "data_format": layout}

    def build(a, b):
        y = getattr(raw_ops, kind)(a, b, **options)
        return [y, *hf.gradients(y * y, [a, b])]

    alike(build, x, w, monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_few_large_images(layout, monkeypatch):
    """The gradient by the filter takes copies of image and gradient in a layout of its own."""
    x, w = normal(2, 24, 25, 17), normal(3, 3, 17, 20)
    x = np.moveaxis(x, -1, 1) if layout == "NCHW" else x

    def build(a, b):
        y = hf.nn.conv2d(a, b, [1, 1, 1, 1], "SAME", data_format=layout)
        return [y, *hf.gradients(y, [a, b])]

    alike(build, x, w, monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_volumes(padding, monkeypatch):
    def build(a, b):
        y = hf.nn.conv3d(a, b, [1, 2, 1, 2, 1], padding)
        return [y, *hf.gradients(y * y, [a, b])]

    alike(build, normal(2, 5, 6, 4, 3), normal(2, 3, 2, 3, 8), monkeypatch=monkeypatch)


POOLS = [((2, 9, 8, 3), (3, 2), (2, 1)), ((1, 5, 5, 1), (5, 5), (1, 1)),
         ((3, 6, 7, 17), (2, 2), (3, 3)), ((2, 8, 8, 16), (3, 3), (2, 2))]


@needs_library
@pairs(
    ("layout", ["NHWC", "NCHW"]),
    ("padding", ["SAME", "VALID"]),
    ("case", POOLS),
    ("pool", [hf.nn.max_pool, hf.nn.avg_pool]),
)
def test_poolings(pool, case, padding, layout, monkeypatch):
    dims, window, strides = case
    x, ksize, steps = normal(*dims), [1, *window, 1], [1, *strides, 1]
    if layout == "NCHW":
        x, ksize, steps = np.moveaxis(x, -1, 1), [1, 1, *window], [1, 1, *strides]

    def build(v):
        y = pool(v, ksize, steps, padding, layout)
        return [y, *hf.gradients(y * y, [v])]

    alike(build, x, monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("pool", [hf.nn.max_pool3d, hf.nn.avg_pool3d], ids=lambda f: f.__name__)
def test_poolings_of_volumes(pool, padding, monkeypatch):
    def build(v):
        y = pool(v, [1, 2, 3, 2, 1], [1, 2, 1, 2, 1], padding)
        return [y, *hf.gradients(y * y, [v])]

    alike(build, normal(2, 5, 6, 4, 3), monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("pool", [hf.nn.max_pool, hf.nn.avg_pool], ids=lambda f: f.__name__)
def test_ties(pool, monkeypatch):
    def build(v):
        y = pool(v, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
        return [y, *hf.gradients(y, [v])]

    alike(build, RNG.integers(0, 2, (2, 9, 9, 20)).astype(np.float32), monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("channels", [3, 16])
def test_batch_norm(training, layout, channels, monkeypatch):
    x, vectors = normal(3, 5, 4, channels), normal(2, channels)
    if layout == "NCHW":
        x = np.moveaxis(x, -1, 1)
    given = {} if training else {"mean": normal(channels), "variance": normal(channels) ** 2}

    def build(a, scale, offset):
        results = hf.nn.fused_batch_norm(a, scale, offset, **given, epsilon=0.01,
                                         data_format=layout, is_training=training)
        y = results[0]
        return [*results, *hf.gradients(y * y * y, [a, scale, offset])]

    alike(build, x, *vectors, monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_gradient_that_batch_norm_may_write_over(layout):
    """One that is fetched, or is a variable's value, keeps its value."""
    dims = (3, 6, 5, 24) if layout == "NHWC" else (3, 24, 6, 5)
    dy, x = normal(*dims), normal(*dims) + 3
    scale, mean, variance = normal(24), np.full(24, 3, np.float32), np.ones(24, np.float32)
    with hf.Graph().as_default(), hf.Session() as session:
        kept = hf.Variable(dy)
        made = kept * 1.5
        by_kept, by_made = [raw_ops.FusedBatchNormGrad(
            y_backprop=given, x=x, scale=scale, reserve_space_1=mean, reserve_space_2=variance,
            data_format=layout)[0] for given in (kept, made)]
        session.run(hf.global_variables_initializer())
        expected = session.run(by_kept)
        for _ in range(2):
            found, value = session.run([by_kept, kept])
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(value, dy)
            np.testing.assert_allclose(session.run(by_made), 1.5 * expected, rtol=1e-4, atol=1e-5)
            found, value = session.run([by_made, made])
            np.testing.assert_allclose(found, 1.5 * expected, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(value, dy * np.float32(1.5))


@needs_library
@pytest.mark.parametrize("order", ["C", "F", "part", "every second"])
@pytest.mark.parametrize("flips", [(False, False), (False, True), (True, False), (True, True)])
def test_products(flips, order, monkeypatch):
    """Large enough for the library; the factors lie in memory in several ways."""
    a, b = (normal(*(dims[::-1] if flip else dims))
            for dims, flip in zip([(210, 160), (160, 140)], flips))
    arranged = {"C": np.copy, "F": np.asfortranarray, "part": lambda x: np.pad(x, 3)[3:-3, 3:-3],
                "every second": lambda x: np.repeat(x, 2, 1)[:, ::2]}[order]

    def build(x, y):
        return hf.matmul(x, y, *flips)

    alike(build, arranged(a), arranged(b), monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("op", [raw_ops.BatchMatMul, raw_ops.BatchMatMulV2])
@pytest.mark.parametrize("flips", [(False, False), (False, True), (True, False), (True, True)])
def test_batches_of_products(flips, op, monkeypatch):
    a, b = (normal(2, 5, *(dims[::-1] if flip else dims))
            for dims, flip in zip([(90, 80), (80, 70)], flips))

    def build(x, y):
        return op(x, y, adj_x=flips[0], adj_y=flips[1])

    alike(build, a, b, monkeypatch=monkeypatch)
    halves = np.sign(a).astype(np.float16), np.sign(b).astype(np.float16)
    alike(build, *halves, monkeypatch=monkeypatch)  # exact, in whatever order
    alike(build, a.swapaxes(0, 1)[:, ::-1], b.swapaxes(0, 1), monkeypatch=monkeypatch)


@needs_library
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("orders", [
    ((0, 2, 1, 3), (0, 1, 2, 3)), ((0, 2, 1, 3), (0, 2, 1, 3)), ((0, 1, 3, 2), (1, 0, 2, 3)),
    ((3, 2, 1, 0), (0, 2, 1, 3))])
def test_batches_of_views(flips, orders, monkeypatch):
    """Factors and results that are transposed, some so that neither rows nor columns lie close."""
    inputs = []
    for dims, order, flip in zip(((6, 5, 90, 80), (6, 5, 80, 70)), orders, flips):
        dims = (*dims[:-2], dims[-1], dims[-2]) if flip else dims
        inputs.append(normal(*[dims[axis] for axis in np.argsort(np.argsort(order))]))

    def build(a, b):
        a, b = (hf.transpose(x, np.argsort(order)) for x, order in zip((a, b), orders))
        y = hf.matmul(a, b, transpose_a=flips[0], transpose_b=flips[1])
        return hf.reshape(hf.transpose(y, [0, 2, 1, 3]), [-1, 70]), y + 1.0

    alike(build, *inputs, monkeypatch=monkeypatch)
    alike(lambda a, b: build(a, b)[0], *inputs, monkeypatch=monkeypatch)


@needs_library
def test_batches_that_do_not_fit(monkeypatch):
    """Broadcast batches are NumPy's; bad factors are errors in its words."""
    alike(raw_ops.BatchMatMulV2, normal(5, 60, 50), normal(3, 5, 50, 190), monkeypatch=monkeypatch)
    with pytest.raises(hf.errors.InvalidArgumentError, match="inner dimensions differ"):
        run(raw_ops.BatchMatMul, normal(9, 90, 80), normal(9, 70, 90))
    with pytest.raises(hf.errors.InvalidArgumentError, match="batch dimensions differ"):
        run(raw_ops.BatchMatMul, normal(9, 90, 80), normal(8, 80, 90))


@needs_library
@pairs(
    ("beta", [0.75, 0.5]),
    ("channels", [3, 20, 32]),
    ("radius", [0, 2, 5, 8]),
)
def test_local_response(radius, channels, beta, monkeypatch):
    """Also of 0.5, which the library computes by its reference alone and NumPy therefore does."""
    def build(x, dy):
        y = hf.nn.lrn(x, radius, bias=1.5, alpha=0.2, beta=beta)
        return [y, *hf.gradients(y, [x], [dy])]

    dims = 2, 4, 3, channels
    alike(build, normal(*dims), normal(*dims), monkeypatch=monkeypatch)


@needs_library
def test_halves(monkeypatch):
    """Computed in single precision, as by NumPy."""
    def build(x, w, a, b):
        y = hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")
        z = [pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
             for pool in (hf.nn.max_pool, hf.nn.avg_pool)]
        return [y, *z, hf.gradients(z[0] + z[1], [x, w])[1], hf.matmul(a, b)]

    inputs = normal(2, 9, 9, 5), normal(3, 3, 5, 6), normal(150, 140), normal(140, 130)
    halves = [x.astype(np.float16) for x in inputs]
    found = run(build, *halves)
    with monkeypatch.context() as patch:
        patch.setattr(config.flags, "onednn", "0")
        expected = run(build, *halves)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype == np.float16
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3 * np.abs(b).max())


@needs_library
@pytest.mark.parametrize("kinds", [("bfloat16", "bfloat16"), ("float32", "bfloat16"),
                                   ("bfloat16", "float32"), ("float32", "float32")])
@pytest.mark.parametrize("flips", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_short_floats(flips, kinds, monkeypatch):
    a, b = (normal(*(dims[::-1] if flip else dims)).astype(hf.as_dtype(kind).np)
            for dims, flip, kind in zip([(210, 160), (160, 140)], flips, kinds))

    def build(x, y):
        return raw_ops.SparseMatMul(x, y, transpose_a=flips[0], transpose_b=flips[1])

    alike(build, a, b, monkeypatch=monkeypatch)


@needs_library
def test_bad_factors():
    with pytest.raises(hf.errors.InvalidArgumentError, match="inner dimensions differ"):
        run(hf.matmul, normal(200, 150), normal(140, 200))
    with pytest.raises(hf.errors.InvalidArgumentError, match="must be matrices"):
        run(hf.raw_ops.MatMul, normal(2, 200, 150), normal(150, 200))
    with pytest.raises(hf.errors.InvalidArgumentError, match="inner dimensions differ"):
        run(hf.raw_ops.SparseMatMul, normal(200, 150), normal(140, 200))


@needs_library
def test_steps_at_the_same_time():
    """One primitive in many threads, each with inputs of its own."""
    x, w = normal(8, 2, 12, 12, 8), normal(3, 3, 8, 16)
    with hf.Graph().as_default(), hf.Session() as session:
        fed = hf.placeholder(hf.float32, [2, 12, 12, 8])
        y = hf.nn.conv2d(fed, w, [1, 1, 1, 1], "SAME")
        expected = [session.run(y, {fed: v}) for v in x]
        with ThreadPoolExecutor(4) as pool:
            for _ in range(5):
                found = list(pool.map(lambda v: session.run(y, {fed: v}), x))
                np.testing.assert_array_equal(found, expected)


def test_a_path_that_is_no_library():
    with pytest.warns(RuntimeWarning, match="no oneDNN"):
        assert library._load(__file__) is None


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(config.flags, "onednn", "0")
    x, w = np.ones((1, 3, 3, 1), np.float32), np.ones((3, 3, 1, 1), np.float32)
    y = run(lambda a, b: hf.nn.conv2d(a, b, [1, 1, 1, 1], "VALID"), x, w)
    np.testing.assert_array_equal(y, [[[[9]]]])


@needs_library
def test_products_of_middle_size_go_to_the_library_where_its_registers_are_wider(monkeypatch):
    monkeypatch.setattr(products, "_is_wider", lambda: True)
    monkeypatch.setattr(products, "_is_wide", lambda: True)
    assert products.is_large(128, 128, 128) and not products.is_large(64, 128, 128)
    assert not products.is_large(1 << 22, 1, 1)
    alike(hf.matmul, normal(100, 128), normal(128, 130), monkeypatch=monkeypatch)
    monkeypatch.setattr(config.flags, "deterministic", True)  # compiled loops have BLAS's bits
    assert not products.is_large(128, 128, 128) and products.is_large(256, 256, 128)
    monkeypatch.setattr(products, "_is_wide", lambda: False)
    assert not products.is_large(256, 256, 128) and products.is_large(256, 256, 128, batch=2)


@needs_library
def test_the_registers_of_both_libraries_are_known(monkeypatch):
    for wide, of_blas, wanted in ((True, False, True), (True, True, False), (True, None, False),
                                  (False, False, False)):
        monkeypatch.setattr(library.load(), "has_avx512", wide)
        monkeypatch.setattr(blas, "has_avx512", lambda found=of_blas: found)
        products._is_wide.cache_clear()
        assert products._is_wider.__wrapped__() is wanted
    products._is_wide.cache_clear()
