"""Layers that read columns, and how to parse what columns need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.feature_column.column import (
    ANY,
    DENSE,
    OF_IDS,
    Column,
    EarlierColumn,
    EarlierDenseColumn,
    buckets_of,
    check_is,
    ids_of,
    rows_of,
    spec_of,
    width_of,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.managers import ScopeVariables
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.nn.activations import bias_add
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.linalg.matmul import matmul
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.partitioned import PartitionedVariable
from hpcflow.ops.state.templates import make_template
from hpcflow.ops.state.variable_scope import VariableScope, get_variable, variable_scope


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
    columns = _dense_columns(feature_columns)
    with variable_scope(None, "input_layer", list(features.values())):
        return _beside_each_other(features, columns, model_collections(weight_collections),
                                  trainable, cols_to_vars, cols_to_output_tensors)


class EarlierInputLayer:
    """An :func:`input_layer` that may be called several times, with the same variables.

    They are in the variable scope `name`, which is taken at once with `create_scope_now`, else in
    the first call.
    """

    def __init__(self, feature_columns: Iterable[Column],
                 weight_collections: Iterable[str] | None = None, trainable: bool = True,
                 cols_to_vars: dict | None = None, name: str = "feature_column_input_layer",
                 create_scope_now: bool = True) -> None:
        self.name = name
        columns, collections = _dense_columns(feature_columns), model_collections(
            weight_collections)
        self._template = make_template(
            name, lambda features: _beside_each_other(features, columns, collections, trainable,
                                                      cols_to_vars, None),
            create_scope_now_=create_scope_now)

    def __call__(self, features: Mapping[str, Any]) -> Tensor:
        """Return float32 ``[batch, numbers of all columns]``."""
        return self._template(features)

    def __getattr__(self, name: str) -> Any:
        """The variables: `variables`, `trainable_variables`, `weights` and their like."""
        if name.endswith(("variables", "weights")):
            return getattr(self._template, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _dense_columns(given: Iterable[Column]) -> list:
    columns = sorted_columns(given)
    for column in columns:
        check_is(DENSE, column, "Items of feature_columns must be a _DenseColumn. You can "
                 "wrap a categorical column with an embedding_column or indicator_column")
    return columns


def _beside_each_other(features: Mapping[str, Any], columns: list, collections: list,
                       trainable: bool, cols_to_vars: dict | None,
                       cols_to_output_tensors: dict | None) -> Tensor:
    """The numbers of columns in the variable scope that is open."""
    read, outputs = Features(features), []
    for column in columns:
        with variable_scope(None, _scope_of(column)) as scope:
            numbers = rows_of(column, _dense(column, read, collections, trainable))
            outputs.append(numbers)
            if cols_to_vars is not None:
                cols_to_vars[column] = scope.global_variables()
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = numbers
    check_batches(outputs, columns)
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
    columns = _linear_columns(feature_columns)
    collections = model_collections(weight_collections)
    with variable_scope(None, "linear_model", list(features.values())):
        return _linear(features, columns, units, sparse_combiner, collections, trainable,
                       {} if cols_to_vars is None else cols_to_vars, {})


class EarlierLinearModel:
    """A linear model that may be called several times; the variables are those of the first call.

    Arguments are those of :func:`linear_model`, and the name of the scope of the variables.
    """

    def __init__(self, feature_columns: Iterable[Column], units: int = 1,
                 sparse_combiner: str = "sum", weight_collections: Iterable[str] | None = None,
                 trainable: bool = True, name: str | None = None) -> None:
        self._columns = _linear_columns(feature_columns)
        self._units, self._combiner, self._trainable = units, sparse_combiner, trainable
        self._collections = model_collections(weight_collections)
        self._name = name or "linear_model"
        self._scope: VariableScope | None = None
        self._cols_to_vars: dict[Any, list] = {}
        self._scopes: dict[Any, VariableScope] = {}

    def __call__(self, features: Mapping[str, Any]) -> Tensor:
        """Return the sums, float32 ``[batch, units]``."""
        with variable_scope(self._scope or self._name, values=list(features.values()),
                            reuse=True if self._scope else None) as scope:
            self._scope = scope
            return _linear(features, self._columns, self._units, self._combiner,
                           self._collections, self._trainable, self._cols_to_vars,
                           self._scopes)

    def cols_to_vars(self) -> dict:
        """Return the variables of each column, and those of ``"bias"``."""
        return self._cols_to_vars


def _linear_columns(given: Iterable[Column]) -> list:
    columns = sorted_columns(given)
    for column in columns:
        check_is(DENSE + OF_IDS, column, "Items of feature_columns must be "
                 "either a _DenseColumn or _CategoricalColumn")
    return columns


def _linear(features: Mapping[str, Any], columns: list, units: int, combiner: str,
            collections: list, trainable: bool, made: dict, scopes: dict) -> Tensor:
    """The sums; `made` gets the variables, `scopes` those that other calls go on with."""
    read, sums = Features(features), []
    for column in columns:
        before = scopes.get(column)
        with variable_scope(before, _scope_of(column), reuse=before and True) as scope:
            scopes[column] = scope
            sums.append(_weighted_sum(column, read, units, combiner, trainable, collections))
            made[column] = scope.global_variables()
    check_batches(sums, columns)
    bias = get_variable("bias_weights", [units], dtypes.float32, initializer=Zeros(),
                        trainable=trainable, collections=collections)
    made["bias"] = list(bias) if isinstance(bias, PartitionedVariable) else [bias]
    return bias_add(add_n(sums, name="weighted_sum_no_bias"), bias, name="weighted_sum")


def _scope_of(column: Any) -> str:
    return column._var_scope_name if isinstance(column, EarlierColumn) else column.name


def _dense(column: Any, features: Features, collections: list, trainable: bool) -> Any:
    """The numbers of a column of this or of earlier releases."""
    if isinstance(column, EarlierDenseColumn):
        return column._get_dense_tensor(features, weight_collections=collections,
                                        trainable=trainable)
    manager = ScopeVariables(collections, trainable)
    column.create_state(manager)
    return column.get_dense_tensor(features, manager)


def _weighted_sum(column: Any, features: Features, units: int, combiner: str, trainable: bool,
                  collections: list) -> Tensor:
    weights = get_variable("weights", weights_shape(column, units), dtypes.float32,
                           initializer=Zeros(), trainable=trainable, collections=collections)
    if isinstance(column, OF_IDS):
        return sum_of_ids(column, features, None, weights, combiner)
    numbers = rows_of(column, _dense(column, features, collections, trainable))
    return matmul(numbers, weights, name="weighted_sum")


def weights_shape(column: Any, units: int) -> list[int]:
    """Return the shape of a column's weights in a linear model."""
    return [buckets_of(column) if isinstance(column, OF_IDS) else width_of(column), units]


def sum_of_ids(column: Any, features: Features, manager: Any, weights: Any,
               combiner: str) -> Tensor:
    """Return the combined weights of each example's ids."""
    ids, of_each = ids_of(column, features, manager)
    return safe_embedding_lookup_sparse(weights, ids, of_each, combiner, name="weighted_sum")


def check_batches(tensors: list[Tensor], columns: list[Column]) -> None:
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
        check_is(ANY, column, "All feature_columns must be _FeatureColumn instances")
        for key, config in spec_of(column).items():
            if key in spec and spec[key] != config:
                raise ValueError(f"feature_columns contain different parse_spec for key {key}. "
                                 f"Given: {config} and {spec[key]}")
            spec[key] = config
    return spec


def sorted_columns(given: Any, kind: str = "_FeatureColumn") -> list:
    """Return the columns in the order of their names. Raises ``ValueError`` as the layers."""
    if isinstance(given, ANY):
        given = [given]
    if isinstance(given, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(given)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    for column in columns:
        check_is(ANY, column, f"Items of feature_columns must be a {kind}")
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ValueError("Duplicate feature column name found for columns: "
                             f"{[c for c in columns if c.name == name]}")
    return sorted(columns, key=lambda c: c.name)


def model_collections(given: Iterable[str] | None) -> list[str]:
    """Return the collections of a model's variables: the given ones and those of all of them."""
    own = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return [*own, *(name for name in given or () if name not in own)]
