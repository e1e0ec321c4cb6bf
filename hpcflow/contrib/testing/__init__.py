"""``hpcflow.contrib.testing``: a writer of summaries that tests can look into, and what they ask
about event files."""

from hpcflow.contrib.testing.fake_summary_writer import FakeSummaryWriter
from hpcflow.contrib.testing.summaries import (
    assert_summary,
    latest_event_file,
    latest_events,
    latest_summaries,
    simple_values_from_events,
    to_summary_proto,
)

__all__ = [
    "FakeSummaryWriter", "assert_summary", "latest_event_file", "latest_events",
    "latest_summaries", "simple_values_from_events", "to_summary_proto",
]  # fmt: skip
