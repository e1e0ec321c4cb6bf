"""Heads by the names of ``python.estimator.canned.head``, whose losses are sums over examples."""

from __future__ import annotations

import functools

from hpcflow.estimator.heads import Head, LossSpec, classification
from hpcflow.estimator.more_heads import (
    binary_classification_head,
    multi_class_head,
    regression_head,
)
from hpcflow.losses import Reduction

__all__ = ["Head", "LossSpec", "binary_head", "classes_head", "head_of_classes", "numbers_head"]

binary_head = functools.partial(binary_classification_head, loss_reduction=Reduction.SUM)
classes_head = functools.partial(multi_class_head, loss_reduction=Reduction.SUM)
numbers_head = functools.partial(regression_head, loss_reduction=Reduction.SUM)
head_of_classes = classification
