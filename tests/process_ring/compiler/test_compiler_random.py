"""Random graphs: compiled, node by node, over several devices and over several tasks they give what
NumPy gives. ``python tests/random_check.py`` checks any number of them."""

from __future__ import annotations

import pytest
from random_check import check_all, loopback

from hpcflow.host import threads

GRAPHS, CHUNK = 60, 20


@pytest.fixture(scope="module")
def cluster():
    with loopback() as made:
        yield made


@pytest.mark.parametrize("chunk", range(GRAPHS // CHUNK))
def test_random_graphs(cluster, chunk, request, monkeypatch):
    # Whatever is element-wise is fused, products run at the same time, in loops by
    # blocks, and values come late.
    if chunk % 2:
        request.getfixturevalue("everything_small")
        monkeypatch.setattr(threads, "at_once", lambda: 2)
    check_all(range(chunk * CHUNK, (chunk + 1) * CHUNK), cluster)
