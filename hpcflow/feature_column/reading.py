"""Layers that read columns, and how to parse what columns need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.feature_column.column import (
    CategoricalColumn,
    Column,
    DenseColumn,
    Features,
    check_is,
    width_of,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.nn.activations import bias_add
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.linalg.matmul import matmul
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.partitioned import PartitionedVariable
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


def input_layer(features: Mapping[str, Any], feature_columns: Iterable[Column],
                weight_collections: Iterable[str] | None = None, trainable: bool = True,
                cols_to_vars: dict | None = None,
                cols_to_output_tensors: dict | None = None) -> Tensor:
    """Return the numbers of dense columns beside each other, in the order of their names.

    Args:
        features: name -> tensor, dense or sparse, of a batch.
        feature_columns: numbers, buckets, indicators, embeddings.
        weight_collections: collections for the variables besides the usual ones.
        trainable: whether variables are trained.
        cols_to_vars: filled with the variables of each column.
        cols_to_output_tensors: filled with the numbers of each column.

    Returns float32 ``[batch, numbers of all columns]``. Raises ``ValueError`` for no columns, two
    of one name, a column of ids (put it into an indicator or an embedding), or features that are
    missing.
    """
    columns = _columns_of(feature_columns)
    for column in columns:
        check_is(DenseColumn, column, "Items of feature_columns must be a _DenseColumn. You can "
                 "wrap a categorical column with an embedding_column or indicator_column")
    collections = _collections_of(weight_collections)
    with variable_scope(None, "input_layer", list(features.values())):
        read, outputs = Features(features), []
        for column in columns:
            with variable_scope(None, column.scope_name) as scope:
                numbers = column.dense(read, trainable, collections)
                outputs.append(numbers)
                if cols_to_vars is not None:
                    cols_to_vars[column] = scope.global_variables()
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = numbers
        _check_batches(outputs, columns)
        return concat(outputs, 1)


def linear_model(features: Mapping[str, Any], feature_columns: Iterable[Column], units: int = 1,
                 sparse_combiner: str = "sum", weight_collections: Iterable[str] | None = None,
                 trainable: bool = True, cols_to_vars: dict | None = None) -> Tensor:
    """Return weighted sums of numbers and ids, with a bias, as of a generalized linear model.

    Args:
        features: name -> tensor, dense or sparse, of a batch.
        feature_columns: any but embeddings of ids are usual; each id has a weight.
        units: how many sums.
        sparse_combiner: of the weights of an example's ids: "sum", "mean" or "sqrtn".
        weight_collections, trainable: as of :func:`input_layer`.
        cols_to_vars: filled with the variables of each column, and that of ``"bias"``.

    Returns float32 ``[batch, units]``. Weights and bias begin as zeros. Raises ``ValueError`` as
    :func:`input_layer`.
    """
    columns = _columns_of(feature_columns)
    for column in columns:
        check_is((DenseColumn, CategoricalColumn), column, "Items of feature_columns must be "  # type: ignore[arg-type]
                 "either a _DenseColumn or _CategoricalColumn")
    collections = _collections_of(weight_collections)
    with variable_scope(None, "linear_model", list(features.values())):
        read, sums = Features(features), []
        for column in columns:
            with variable_scope(None, column.scope_name) as scope:
                sums.append(_weighted_sum(column, read, units, sparse_combiner, trainable,
                                          collections))
                if cols_to_vars is not None:
                    cols_to_vars[column] = scope.global_variables()
        _check_batches(sums, columns)
        bias = get_variable("bias_weights", [units], dtypes.float32, initializer=Zeros(),
                            trainable=trainable, collections=collections)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = list(bias) if isinstance(bias, PartitionedVariable) else [bias]
        return bias_add(add_n(sums, name="weighted_sum_no_bias"), bias, name="weighted_sum")


def _weighted_sum(column: Any, features: Features, units: int, combiner: str, trainable: bool,
                  collections: list) -> Tensor:
    of_ids = isinstance(column, CategoricalColumn)
    found = column.ids(features) if of_ids else column.dense(features, trainable, collections)
    weights = get_variable("weights", [column._num_buckets if of_ids else width_of(column), units],
                           dtypes.float32, initializer=Zeros(), trainable=trainable,
                           collections=collections)
    if of_ids:
        return safe_embedding_lookup_sparse(weights, found.id_tensor, found.weight_tensor, combiner,
                                            name="weighted_sum")
    return matmul(found, weights, name="weighted_sum")


def _check_batches(tensors: list[Tensor], columns: list[Column]) -> None:
    """Raise ``ValueError`` if the batches of two columns are known to be of other sizes."""
    sizes = [(t.shape[0].value, column.name) for t, column in zip(tensors, columns)
             if t.shape.ndims and t.shape[0].value is not None]
    for size, name in sizes[1:]:
        if size != sizes[0][0]:
            raise ValueError("Batch size (first dimension) of each feature must be same. Batch "
                             f"size of columns ({sizes[0][1]}, {name}): ({sizes[0][0]}, {size})")


def make_parse_example_spec(feature_columns: Iterable[Column]) -> dict[str, Any]:
    """Return how ``hf.parse_example`` reads what columns need: feature -> configuration.

    Raises ``ValueError`` if two columns read a feature differently.
    """
    spec: dict[str, Any] = {}
    for column in feature_columns:
        check_is(Column, column, "All feature_columns must be _FeatureColumn instances")
        for key, config in column._parse_example_spec.items():
            if key in spec and spec[key] != config:
                raise ValueError(f"feature_columns contain different parse_spec for key {key}. "
                                 f"Given: {config} and {spec[key]}")
            spec[key] = config
    return spec


def _columns_of(given: Any) -> list:
    """The columns in the order of their names."""
    if isinstance(given, Column):
        given = [given]
    if isinstance(given, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(given)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    for column in columns:
        check_is(Column, column, "Items of feature_columns must be a _FeatureColumn")
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError("Duplicate feature column name found for columns: "
                             f"{[c for c in columns if c.name == name]}")
    return sorted(columns, key=lambda c: c.name)


def _collections_of(given: Iterable[str] | None) -> list[str]:
    own = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return [*own, *(name for name in given or () if name not in own)]
