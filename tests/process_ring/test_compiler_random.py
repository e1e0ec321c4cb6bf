"""Random graphs: compiled, node by node, over several devices and over several tasks they give what
NumPy gives. ``python tests/random_check.py`` checks any number of them."""

from __future__ import annotations

import pytest
from random_check import check_all, loopback

from hpcflow.compiler.distribute import late_receives
from hpcflow.compiler.native import (
    accumulate_gemm,
    batch_iterations,
    concurrent_gemm,
    fusion,
    hoist_input_gemm,
)
from hpcflow.host import threads

GRAPHS, CHUNK = 220, 20


@pytest.fixture(scope="module")
def cluster():
    with loopback() as made:
        yield made


@pytest.mark.parametrize("chunk", range(GRAPHS // CHUNK))
def test_random_graphs(cluster, chunk, monkeypatch):
    # Whatever is element-wise is fused, products run at the same time, in loops by
    # blocks, and values come late.
    if chunk % 2:
        for name in ("_LARGE", "_FEWEST_COLUMNS"):
            monkeypatch.setattr(batch_iterations, name, 1)
        for module in (hoist_input_gemm, accumulate_gemm):
            monkeypatch.setattr(module, "_BLOCK_FLOPS", 1.0)
        monkeypatch.setattr(concurrent_gemm, "_LARGE", 1)
        monkeypatch.setattr(threads, "at_once", lambda: 2)
        for name in ("_FEWEST", "_PARALLEL", "_LARGE"):
            monkeypatch.setattr(fusion, name, 1)
        monkeypatch.setattr(fusion, "_FUSED_SECONDS", 0.0)
        monkeypatch.setattr(late_receives, "LEAST_BYTES", 1)
        monkeypatch.setattr(late_receives, "_LEAST_GAIN", -9.0)
        monkeypatch.setattr(late_receives, "_MESSAGE_SECONDS", 0.0)
        monkeypatch.setattr(late_receives, "_BYTES_PER_SECOND", 1e15)
    check_all(range(chunk * CHUNK, (chunk + 1) * CHUNK), cluster)
