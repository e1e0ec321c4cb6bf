"""Fixtures of the job ring."""

from fixtures import (  # noqa: F401
    beside_server,
    bits_are_kept_by_the_test_alone,
    checked,
    everything_small,
    form,
    graph,
    session,
)
