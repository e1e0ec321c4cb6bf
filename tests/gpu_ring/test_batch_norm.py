"""Batch normalization on a GPU: two launches each way, with the numbers of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ring import nvrtc
from gpu_ring.test_programs import run
from gpu_ring.test_workloads import gpu_of

import hpcflow as hf
from hpcflow.kernels.nn import device_batch_norm as programs
from hpcflow.loops import cuda_code


def _norm(dims: tuple[int, ...], dtype: Any, mean: float, training: bool) -> tuple:
    """Batch normalization with all its gradients."""
    random = np.random.default_rng(0)
    x = hf.placeholder(dtype, dims)
    scale, offset = (hf.constant(random.random(dims[3], np.float32)) for _ in range(2))
    known = {} if training else {"mean": offset - 0.5, "variance": scale + 0.5}
    y, *moments = hf.nn.fused_batch_norm(x, scale, offset, is_training=training, **known)
    weights = hf.constant(random.standard_normal(dims), dtype)
    return ([y, *moments, *hf.gradients(y * weights, [x, scale, offset])],
            {x: mean + random.standard_normal(dims)})


@pytest.mark.parametrize("dims", [(4, 6, 6, 5), (3, 1, 1, 40), (2, 1, 1, 1), (1, 1, 1, 3)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("dtype", "mean", "tolerance"), [
    (hf.float32, 0.5, 2e-5), (hf.float32, 1000.0, 2e-3), (hf.float16, 1.0, 2e-2)])
def test_it_gives_what_the_cpu_gives(dims: tuple[int, ...], training: bool, dtype: Any, mean: float,
                                     tolerance: float) -> None:
    def build() -> tuple:
        return _norm(dims, dtype, mean, training)

    for i, (ours, theirs) in enumerate(zip(run(build, 1), run(build, 0), strict=True)):
        most = max(np.abs(np.asarray(theirs, np.float64)).max(), 1.0)
        np.testing.assert_allclose(np.asarray(ours, np.float64), np.asarray(theirs, np.float64),
                                   atol=tolerance * most, rtol=0, err_msg=f"fetch {i}")


@pytest.mark.usefixtures("one_by_one")
def test_its_launches() -> None:
    """Two forward, two back, whatever the size of the batch."""
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [None, 4, 4, 8])
        y, *_ = hf.nn.fused_batch_norm(x, hf.ones([8]), hf.zeros([8]))
        fetch = hf.gradients(hf.nn.relu(y), x)[0].op
        with hf.Session() as session:
            for batch in (3, 5):
                feeds = {x: np.ones((batch, 4, 4, 8), np.float32)}
                session.run(fetch, feeds)
                before = gpu_of(session).launches
                session.run(fetch, feeds)
                assert gpu_of(session).launches - before <= 7


@pytest.mark.parametrize("channels", [1, 3, 64])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_its_kernels_compile(channels: int, dtype: str) -> None:
    made = (programs.statistics(channels, dtype, 1e-3), programs.normalization(channels, dtype),
            programs.gradient_sums(channels, dtype, 1e-3), programs.gradient(channels, dtype, True),
            programs.gradient(channels, dtype, False))
    assert not nvrtc.errors(cuda_code.kernel_text(made), *cuda_code.OPTIONS)
