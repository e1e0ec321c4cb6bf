"""Fixtures of the process and job rings, which their conftest.py files take over."""

from __future__ import annotations

import pytest
from thresholds import lower_all, use_pool

import hpcflow as hf
from hpcflow import config
from hpcflow.host import threads


@pytest.fixture(params=["compiled", "node by node"])
def form(request, monkeypatch):
    """Runs the test twice: with regions, and every node by itself."""
    monkeypatch.setattr(config.flags, "compile", request.param == "compiled")
    return request.param


# For what a graph refuses as it is built, whatever its form would be.
in_one_form = pytest.mark.parametrize("form", ["compiled"], indirect=True)


@pytest.fixture
def graph():
    """A graph of the test's own, the default one inside the test."""
    with hf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(graph):
    """A session on `graph`."""
    with hf.Session(graph=graph) as session:
        yield session


@pytest.fixture
def pool(monkeypatch):
    """A pool of three threads that compute, whatever the machine has."""
    found = threads.Pool(3)
    use_pool(monkeypatch, found)
    yield found
    found.close()


@pytest.fixture
def checked(monkeypatch):
    """The graph is checked after every pass, and every kernel at every call."""
    monkeypatch.setattr(config.flags, "check_stages", True)


@pytest.fixture
def everything_small(monkeypatch):
    """Small arrays, short loops and few values are treated as large, long and many."""
    lower_all(monkeypatch)


@pytest.fixture
def beside_server():
    """A session of ``/job:worker/task:0`` beside the parameter server ``/job:ps/task:0``."""
    spec = hf.train.ClusterSpec({"ps": ["beside-ps:1"], "worker": ["beside-worker:1"]})
    made = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    with hf.Graph().as_default(), hf.Session(made[1].target) as opened:
        yield opened
    for server in made:
        server._server.close()
