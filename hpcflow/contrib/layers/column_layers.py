"""Layers that read the columns of ``contrib.layers``, and how to parse what they need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.framework.variables import model_variable
from hpcflow.contrib.layers.columns import FeatureColumn, OfIds
from hpcflow.contrib.layers.dense_columns import restore
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.contrib.layers.numeric_columns import real_valued_column
from hpcflow.feature_column.column import EarlierDenseColumn
from hpcflow.feature_column.features import Features
from hpcflow.graph.operation import Tensor
from hpcflow.graph.sparse_tensor import is_sparse
from hpcflow.ops.state.initializers import Zeros

_MATRIX = 2


def check_feature_columns(feature_columns: Any) -> None:
    """Raise ``ValueError`` for a dict of columns, or for two of one key."""
    if isinstance(feature_columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    seen = set()
    for column in feature_columns:
        if column.key in seen:
            raise ValueError("Duplicate feature column key found for column: "
                             f"{column.name}. This usually means that the column is almost "
                             "identical to another column, and one must be discarded.")
        seen.add(column.key)


def _in_order(columns: Iterable) -> list:
    columns = columns if isinstance(columns, dict) else list(columns)
    check_feature_columns(columns)
    return sorted(set(columns), key=lambda column: column.key)


class _Features(Features):
    """The features that columns read; a missing one is a ``KeyError``."""

    def _read(self, key: str) -> Any:
        if key not in self._features:
            raise KeyError(key)
        return super()._read(key)


def _scope(scope: Any, name: str, features: dict) -> Any:
    values = [x for x in features.values() if not isinstance(x, tuple)]
    return hf.variable_scope(scope, name, values)


def _matrix(x: Tensor) -> Tensor:
    """Numbers ``[batch, ...]`` as ``[batch, size]``."""
    if x.shape.ndims in (None, _MATRIX):
        return x
    size = x.shape[1:].num_elements()
    return hf.reshape(x, [-1, size]) if size else x


def input_from_feature_columns(columns_to_tensors: dict, feature_columns: Iterable,
                               weight_collections: Iterable[str] | None = None,
                               trainable: bool = True, scope: Any = None,
                               cols_to_outs: dict | None = None) -> Tensor:
    """Return the numbers of columns beside each other.

    Arguments as of ``hf.feature_column.input_layer``, for columns of this package; `scope` is a
    variable scope, "input_from_feature_columns" by default.

    Returns float32 ``[batch, numbers of all columns]``. Raises ``ValueError`` for columns of ids,
    and those that are alike, ``KeyError`` for features that are missing.
    """
    columns = _in_order(feature_columns)
    if cols_to_outs is not None and not isinstance(cols_to_outs, dict):
        raise ValueError("cols_to_outs must be a dict unless None")
    outputs, read = {}, _Features(columns_to_tensors)
    collections = list(weight_collections or ())
    with _scope(scope, "input_from_feature_columns", columns_to_tensors):
        for column in columns:
            with _scope(None, column.name, columns_to_tensors):
                if not isinstance(column, EarlierDenseColumn):
                    raise ValueError(f"Error creating input layer for column: {column.name}.\n"
                                     "Columns of ids are not supported in DNN. Please use "
                                     f"embedding_column or one_hot_column. column: {column}")
                outputs[column] = _matrix(column._get_dense_tensor(read, collections, trainable))
        if cols_to_outs is not None:
            cols_to_outs.update(outputs)
        return hf.concat(list(outputs.values()), 1)


def weighted_sum_from_feature_columns(columns_to_tensors: dict, feature_columns: Iterable,
                                      num_outputs: int,
                                      weight_collections: Iterable[str] | None = None,
                                      trainable: bool = True, scope: Any = None) -> tuple:
    """Return weighted sums of numbers and ids, with a bias, as of a generalized linear model.

    Arguments as of :func:`input_from_feature_columns`. Each id has a weight.

    Returns float32 ``[batch, num_outputs]``, the variables of each column, and the bias. Raises
    ``ValueError`` for embeddings, and columns that are alike, ``NotImplementedError`` for one-hot
    columns.
    """
    columns, read = _in_order(feature_columns), _Features(columns_to_tensors)
    sums, variables = [], {}
    with _scope(scope, "weighted_sum_from_feature_columns", columns_to_tensors):
        for column in columns:
            with _scope(None, column.name, columns_to_tensors):
                found, weights = _weighted(column, read, num_outputs, weight_collections, trainable)
            sums.append(hf.reshape(found, [-1, num_outputs]))
            variables[column] = weights
        bias = model_variable("bias_weight", [num_outputs], hf.float32, Zeros(),
                              trainable=trainable, collections=weight_collections)
        return hf.nn.bias_add(hf.add_n(sums), bias), variables, bias


def _weighted(column: Any, read: Features, count: int, collections: Any,
              trainable: bool) -> tuple[Tensor, list]:
    def weights(name: str, size: Any) -> Any:
        return model_variable(name, [size, count], hf.float32, Zeros(), trainable=trainable,
                              collections=collections)

    if isinstance(column, OfIds):
        ids = column._get_sparse_tensors(read)
        table = weights("weights", column._num_buckets)
        restore(table, getattr(column, "ckpt_to_load_from", None),
                getattr(column, "tensor_name_in_ckpt", None))
        return safe_embedding_lookup_sparse(
            table, ids.id_tensor, ids.weight_tensor, column.combiner,
            name=f"{column.name}_weights"), _parts(table)
    if hasattr(column, "sparse_id_column"):
        kind: type[Exception] = ValueError if hasattr(column, "dimension") else NotImplementedError
        raise kind(f"Error creating weighted sum for column: {column.name}.\nColumn {column} is "
                   "not supported in linear models. Please use sparse_column.")
    numbers = _matrix(column._get_dense_tensor(read, collections, trainable))
    table = weights("weight", numbers.shape[1].value)
    return hf.matmul(numbers, table, name="matmul"), [table]


def _parts(variable: Any) -> list:
    return list(variable) if hasattr(variable, "_get_variable_list") else [variable]


def create_feature_spec_for_parsing(feature_columns: Any) -> dict[str, Any]:
    """Return how ``hf.parse_example`` reads what columns need: feature -> configuration.

    Raises ``TypeError`` for what is no column.
    """
    spec: dict[str, Any] = {}
    columns = feature_columns.values() if isinstance(feature_columns, dict) else feature_columns
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise TypeError("feature_columns should only contain instances of _FeatureColumn. "
                            f"Given column is {column}")
        spec.update(column.config)
    return spec


def parse_feature_columns_from_examples(serialized: Any, feature_columns: Iterable,
                                        name: str | None = None,
                                        example_names: Any = None) -> dict:
    """Return the features of serialized Examples that columns read, and what columns make of them.

    Arguments are those of ``hf.parse_example``, and the columns.
    """
    columns = _in_order(feature_columns)
    spec = create_feature_spec_for_parsing(columns)
    features = hf.parse_example(serialized, spec, name, example_names)
    return {**features, **transform_features(features, columns)}


def transform_features(features: dict, feature_columns: Iterable) -> dict:
    """Return what each column makes of a batch of features, before any variables apply."""
    read = _Features(features)
    return {column: read.get(column) for column in _in_order(feature_columns)}


def make_place_holder_tensors_for_base_features(feature_columns: Iterable) -> dict[str, Any]:
    """Return placeholders for what columns read, dense or sparse, by the names of features."""
    return {key: hf.sparse_placeholder(config.dtype, name=f"Placeholder_{key}")
            if isinstance(config, hf.VarLenFeature) else
            hf.placeholder(config.dtype, [None, config.shape[0]], name=f"Placeholder_{key}")
            for key, config in create_feature_spec_for_parsing(feature_columns).items()}


def infer_real_valued_columns(features: Any) -> list:
    """Return a column of numbers for each of the features, or one for a tensor.

    Raises ``ValueError`` for features that are no numbers, or sparse.
    """
    by_name = features if isinstance(features, dict) else {"": features}
    return [_column_of(name, x) for name, x in by_name.items()]


def _column_of(name: str, x: Any) -> Any:
    if is_sparse(x):
        raise ValueError("SparseTensor is not supported for auto detection. Please define "
                         f"corresponding FeatureColumn for tensor {name} {x}.")
    x = hf.convert_to_tensor(x)
    if not (x.dtype.is_integer or x.dtype.is_floating):
        raise ValueError("Non integer or non floating types are not supported for auto detection. "
                         f"Please define corresponding FeatureColumn for tensor {name} {x}.")
    return real_valued_column(name, int(np.prod(x.shape.as_list()[1:], dtype=int)),
                              dtype=x.dtype.base_dtype)
