"""``hpcflow.losses``: weighted losses, gathered in a collection."""

from hpcflow.losses.collecting import (
    Reduction,
    add_loss,
    compute_weighted_loss,
    get_losses,
    get_regularization_loss,
    get_regularization_losses,
    get_total_loss,
)
from hpcflow.losses.cross_entropy import (
    log_loss,
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from hpcflow.losses.distances import (
    absolute_difference,
    cosine_distance,
    hinge_loss,
    huber_loss,
    mean_pairwise_squared_error,
    mean_squared_error,
)
