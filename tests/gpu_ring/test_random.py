"""Random numbers that a kernel draws on the GPU: those of the CPU, in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.conftest import real_gpus

import hpcflow as hf
from hpcflow.kernels.random import device_numbers

OPS = ["RandomUniform", "RandomStandardNormal", "TruncatedNormal"]
DTYPES = ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_those_of_the_cpu(op: str, dtype: str) -> None:
    """The kernel compiles; a GPU, if there is one, or the stand-in runs it, in a graph too."""
    assert real_gpus() or not nvrtc.errors(device_numbers.kernel_of(op, dtype).text())
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
