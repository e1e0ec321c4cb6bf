"""Fixtures of the job ring."""

from fixtures import (  # noqa: F401
    beside_server,
    checked,
    everything_small,
    form,
    graph,
    session,
)
