"""``hpcflow.contrib.nn``: functions of ``nn`` that were tried out first."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.nn.adaptive_sampling import (
    rank_sampled_softmax_loss,
    sampled_sparse_softmax_loss,
)
from hpcflow.contrib.nn.forward_gradients import fwd_gradients
from hpcflow.contrib.nn.functions import (
    alpha_dropout,
    deprecated_flipped_sigmoid_cross_entropy_with_logits,
    deprecated_flipped_softmax_cross_entropy_with_logits,
    deprecated_flipped_sparse_softmax_cross_entropy_with_logits,
    scaled_softplus,
)
from hpcflow.nn.convolution import conv1d_transpose

__all__ = ["alpha_dropout", "conv1d_transpose",
           "deprecated_flipped_sigmoid_cross_entropy_with_logits",
           "deprecated_flipped_softmax_cross_entropy_with_logits",
           "deprecated_flipped_sparse_softmax_cross_entropy_with_logits", "fwd_gradients",
           "rank_sampled_softmax_loss", "sampled_sparse_softmax_loss", "scaled_softplus"]

__getattr__ = named_otherwise(__name__)
