"""``hpcflow.contrib.model_pruning``: small weights become 0 while a model trains.

Layers and cells multiply their weights by masks; :class:`Pruning` updates the masks, so that a
growing share of the weights is left out (Zhu and Gupta, 2017, arXiv:1710.01878).
"""

from hpcflow.contrib.model_pruning.layers import (
    MaskedBasicLSTMCell,
    MaskedLSTMCell,
    masked_conv2d,
    masked_convolution,
    masked_fully_connected,
)
from hpcflow.contrib.model_pruning.masks import (
    apply_mask,
    get_masked_weights,
    get_masks,
    get_thresholds,
    get_weight_sparsity,
    get_weights,
)
from hpcflow.contrib.model_pruning.schedule import Pruning, get_pruning_hparams
from hpcflow.contrib.model_pruning.stripping import (
    graph_def_from_checkpoint,
    strip_pruning_vars_fn,
)
from hpcflow.contrib.model_pruning.training import train

__all__ = [
    "MaskedBasicLSTMCell", "MaskedLSTMCell", "Pruning", "apply_mask", "get_masked_weights",
    "get_masks", "get_pruning_hparams", "get_thresholds", "get_weight_sparsity", "get_weights",
    "graph_def_from_checkpoint", "masked_conv2d", "masked_convolution", "masked_fully_connected",
    "strip_pruning_vars_fn", "train",
]  # fmt: skip
