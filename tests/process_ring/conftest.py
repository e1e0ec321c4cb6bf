"""Fixtures of the process ring, and what its gradient checks leave."""

import gradcheck
import pytest
from fixtures import (  # noqa: F401
    beside_server,
    checked,
    everything_small,
    form,
    graph,
    pool,
    session,
)

import hpcflow as hf


@pytest.fixture(autouse=True)
def _default_graph_of_its_own() -> None:
    """Let every test begin with an empty default graph."""
    hf.reset_default_graph()


def pytest_sessionfinish(session: pytest.Session) -> None:  # noqa: F811
    gradcheck.leave(item.path for item in getattr(session, "items", ()))
