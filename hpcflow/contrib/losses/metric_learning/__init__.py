"""Losses by which rows of the same label come close to each other, those of others part."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.losses.metric_learning.clustering import cluster_loss
from hpcflow.contrib.losses.metric_learning.pairs import (
    contrastive_loss,
    lifted_struct_loss,
    npairs_loss,
    npairs_loss_multilabel,
    pairwise_distance,
    triplet_semihard_loss,
)

__getattr__ = named_otherwise(__name__)
