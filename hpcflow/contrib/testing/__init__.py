"""``hpcflow.contrib.testing``: a writer of summaries that tests can look into."""

from hpcflow.contrib.testing.fake_summary_writer import FakeSummaryWriter

__all__ = ["FakeSummaryWriter"]
