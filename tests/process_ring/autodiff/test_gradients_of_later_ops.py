"""Gradients of op types that 1.15 does not have, or has without a public function."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow.graph.raw import raw_ops

RNG = np.random.default_rng(5)


def test_a_part_of_a_sparse_tensor():
    indices = np.array([[0, 1], [1, 0], [1, 2], [3, 1]], np.int64)
    check_gradient(
        lambda values: raw_ops.SparseSlice(indices, values, np.int64([4, 3]), np.int64([1, 0]),
                                           np.int64([3, 2]))[1],
        RNG.normal(size=4), forms=["static"], second=False)


@pytest.mark.parametrize("batched", [False, True])
def test_rows_of_different_lengths_as_variants(batched):
    def there_and_back(values):
        variant = raw_ops.RaggedTensorToVariant([np.int64([0, 2, 2, 5])], values,
                                                batched_input=batched)
        return raw_ops.RaggedTensorFromVariant(
            variant, input_ragged_rank=0 if batched else 1, output_ragged_rank=1,
            Tvalues=hf.float64, Tsplits=hf.int64)[-1]

    check_gradient(there_and_back, RNG.normal(size=5), forms=["static"], second=False)


@pytest.mark.parametrize("kernel", ["lanczos3", "triangle"])
def test_images_that_are_scaled_and_moved(kernel):
    check_gradient(  # a linear function, of single precision
        lambda images: hf.cast(raw_ops.ScaleAndTranslate(
            hf.cast(images, hf.float32), np.int32([5, 4]), np.float32([1.5, 0.8]),
            np.float32([0.3, -0.4]), kernel_type=kernel), hf.float64),
        RNG.normal(size=(1, 4, 5, 2)), delta=0.5, tolerance=1e-5, second=False)


def test_images_that_are_transformed():
    moves = np.float32([[1, 0, -1, 0, 1, 2, 0, 0]])  # by whole pixels: the way back is exact

    def moved(images):
        size = np.int32([4, 5])
        return [raw_ops.ImageProjectiveTransformV2(images, moves, size, interpolation="NEAREST"),
                raw_ops.ImageProjectiveTransformV3(images, moves, size, np.float32(0),
                                                   interpolation="BILINEAR")]

    # Linear, with sums of single precision.
    check_gradient(moved, RNG.normal(size=(1, 4, 5, 2)), delta=0.5, tolerance=1e-5)
