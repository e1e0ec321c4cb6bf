"""``hpcflow.contrib.distributions``: the distributions, by their first path."""

from hpcflow.distributions import *  # noqa: F403
