"""``contrib.learn.ops``: losses of linear models, and embeddings."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.operation import Tensor

__all__ = ["categorical_variable", "embedding_lookup", "mean_squared_error_regressor",
           "softmax_classifier"]


def embedding_lookup(params: Any, ids: Any, name: str = "embedding_lookup") -> Tensor:
    """Return the rows of `params` for `ids` of any shape."""
    with hf.name_scope(name, values=[params, ids]):
        return hf.nn.embedding_lookup(hf.convert_to_tensor(params), hf.convert_to_tensor(ids))


def categorical_variable(tensor_in: Any, n_classes: int, embedding_size: int, name: str) -> Tensor:
    """Return embeddings of classes, of the variable ``name/name_embeddings``."""
    with hf.variable_scope(name):
        return embedding_lookup(hf.get_variable(f"{name}_embeddings", [n_classes, embedding_size]),
                                tensor_in)


def mean_squared_error_regressor(tensor_in: Any, labels: Any, weights: Any, biases: Any,
                                 name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return ``tensor_in @ weights + biases``, and its mean squared error."""
    with hf.name_scope(name, "mean_squared_error_regressor", [tensor_in, labels]):
        predictions = hf.nn.xw_plus_b(tensor_in, weights, biases)
        if labels.shape.ndims == 1 and predictions.shape.ndims == 2:
            predictions = hf.squeeze(predictions, [1])
        return predictions, hf.losses.mean_squared_error(labels, predictions)


def softmax_classifier(tensor_in: Any, labels: Any, weights: Any, biases: Any,
                       class_weight: Any = None,
                       name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the softmax of ``tensor_in @ weights + biases``, times `class_weight` if there is one,
    and its cross entropy to one-hot labels."""
    with hf.name_scope(name, "softmax_classifier", [tensor_in, labels]):
        logits = hf.nn.xw_plus_b(tensor_in, weights, biases)
        if class_weight is not None:
            logits = logits * class_weight
        return hf.nn.softmax(logits), hf.losses.softmax_cross_entropy(labels, logits)
