"""``hpcflow.contrib.sharded``: layers whose parameters and work stay where their shards are."""

from hpcflow.contrib.sharded.softmax import sharded_softmax_cross_entropy
