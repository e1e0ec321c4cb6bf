"""``hpcflow.metrics``: measures accumulated over many steps in local variables.

Every metric returns its value and an operation that takes in the tensors of a step and returns the
value after it. The local variables are set to zero by ``local_variables_initializer()``.
"""

from hpcflow.metrics.classes import mean_iou, mean_per_class_accuracy
from hpcflow.metrics.counts import (
    false_negatives,
    false_positives,
    precision,
    recall,
    true_negatives,
    true_positives,
)
from hpcflow.metrics.means import (
    accuracy,
    mean,
    mean_absolute_error,
    mean_cosine_distance,
    mean_relative_error,
    mean_squared_error,
    mean_tensor,
    percentage_below,
    root_mean_squared_error,
)
from hpcflow.metrics.thresholds import (
    auc,
    false_negatives_at_thresholds,
    false_positives_at_thresholds,
    precision_at_thresholds,
    recall_at_thresholds,
    sensitivity_at_specificity,
    specificity_at_sensitivity,
    true_negatives_at_thresholds,
    true_positives_at_thresholds,
)
from hpcflow.metrics.top_k import (
    precision_at_top_k,
    recall_at_k,
    recall_at_top_k,
    sparse_average_precision_at_k,
    sparse_precision_at_k,
)

average_precision_at_k = sparse_average_precision_at_k  # the names since 1.5
precision_at_k = sparse_precision_at_k
