"""Images, matrices and spectra on a device with memory of its own give what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest
from fake_accelerator import FakeDevice, fake_accelerators

import hpcflow as hf
from hpcflow import image, raw_ops
from hpcflow.signal import spectral

RNG = np.random.default_rng(0)
X = RNG.random((2, 6, 7, 3)).astype("float32")
A = (RNG.random((2, 4, 4)) + 3 * np.eye(4)).astype("float32")
B = RNG.random((2, 4, 3)).astype("float32")
BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9]], "float32")
AROUND = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], "int32")
FILTER = np.ones((2, 2, 3, 2), "float32")
CONV = {"paddings": AROUND, "filter": FILTER, "mode": "REFLECT", "strides": [1, 1, 1, 1],
        "padding": "VALID"}  # fmt: skip
POOL = {"pooling_ratio": [1.0, 1.5, 1.5, 1.0], "deterministic": True, "seed": 2}


def with_gradient(build, x):
    x = hf.constant(x)
    y = build(x)
    return [y, hf.gradients(hf.abs(y), x)[0]]


BUILD = {
    "bilinear": lambda: with_gradient(lambda x: image.resize_bilinear(x, [9, 3]), X),
    "bicubic": lambda: with_gradient(lambda x: image.resize_bicubic(x, [9, 3]), X),
    "nearest": lambda: with_gradient(lambda x: image.resize_nearest_neighbor(x, [9, 3]), X),
    "area": lambda: image.resize_area(X, [3, 3]),
    "crops": lambda: with_gradient(lambda x: image.crop_and_resize(x, BOXES, [0, 1], [3, 4]), X),
    "boxes": lambda: with_gradient(lambda b: image.crop_and_resize(X, b, [0, 1], [3, 4]), BOXES),
    "colours": lambda: [image.rgb_to_hsv(X), image.hsv_to_rgb(X), image.adjust_hue(X, 0.2),
                        image.adjust_saturation(X, 0.2), image.adjust_contrast(X, 0.2)],
    "drawing": lambda: image.draw_bounding_boxes(X, np.stack([BOXES] * 2)),
    "glimpses": lambda: image.extract_glimpse(X, [2, 2], [[0.0, 0.0], [0.0, 0.0]]),
    "selection": lambda: image.non_max_suppression(BOXES, [0.1, 0.2], 2),
    "squares": lambda: [hf.matrix_inverse(A), hf.matrix_determinant(A),
                        hf.self_adjoint_eigvals(A), hf.svd(A)[0], hf.qr(A)[1]],
    "cholesky": lambda: with_gradient(hf.cholesky, A @ A.swapaxes(1, 2)),
    "systems": lambda: [hf.matrix_solve(A, B, True), hf.matrix_triangular_solve(A, B),
                        hf.matrix_solve_ls(A, B, 0.1), hf.matrix_solve_ls(A, B, fast=False)],
    "spectra": lambda: [hf.fft2d(A + 1j * A), spectral.irfft(A + 1j * A),
                        *with_gradient(spectral.rfft2d, X)],
    "maxima": lambda: with_gradient(lambda x: hf.nn.fractional_max_pool(x, **POOL)[0], X),
    "means": lambda: with_gradient(lambda x: hf.nn.fractional_avg_pool(x, **POOL)[0], X),
    "fused": lambda: [raw_ops.FusedPadConv2D(input=X, **CONV),
                      raw_ops.FusedResizeAndPadConv2D(input=X, size=[5, 5], **CONV)],
}  # fmt: skip


@pytest.mark.parametrize("name", BUILD)
def test_the_same_on_both(graph, name):
    with fake_accelerators(1):
        with hf.device("/cpu:0"):
            expected = BUILD[name]()
        with hf.device(f"/device:{FakeDevice.type}:0"):
            found = BUILD[name]()
        with hf.Session(config=hf.ConfigProto(allow_soft_placement=True)) as session:
            values = session.run([expected, found])
    for a, b in zip(*[v if isinstance(v, list) else [v] for v in values], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
