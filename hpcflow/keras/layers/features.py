"""Layers of models that read a dict of features by columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import hpcflow as hf
from hpcflow.feature_column import serialization
from hpcflow.feature_column.column import (
    CategoricalColumn,
    Column,
    DenseColumn,
    SequenceDenseColumn,
    check_is,
    rows_of,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.managers import LayerVariables, StateManager
from hpcflow.feature_column.reading import (
    check_batches,
    sorted_columns,
    sum_of_ids,
    weights_shape,
)
from hpcflow.feature_column.sequence import joined, steps_of
from hpcflow.graph.operation import Tensor
from hpcflow.keras.engine.layer import Layer
from hpcflow.ops.math.sums import add_n
from hpcflow.shapes import ShapeLike, TensorShape


class FeaturesLayer(Layer):
    """Base of the layers that read features by columns.

    Args:
        feature_columns: the columns, of distinct names.
        trainable: whether optimizers may change the variables.
        name: of the layer.

    Raises ``ValueError`` for no columns, two of one name, or columns that the layer cannot read.
    """

    _kinds: tuple[type, ...] = (DenseColumn,)
    _dims_kept = 1
    _wanted = ("Items of feature_columns must be a DenseColumn. You can wrap a categorical column "
               "with an embedding_column or indicator_column")

    def __init__(self, feature_columns: Iterable[Column] | Column, trainable: bool | None = True,
                 name: str | None = None, **keywords: Any) -> None:
        super().__init__(trainable=trainable, name=name, **keywords)  # type: ignore[arg-type]
        self._feature_columns = sorted_columns(feature_columns, "FeatureColumn")
        for column in self._feature_columns:
            check_is(self._kinds, column, self._wanted)
        self._state_manager = LayerVariables(self, trainable)

    def build(self, input_shape: ShapeLike) -> None:
        """Create the variables of the columns."""
        for column in self._feature_columns:
            with hf.name_scope(column.name):
                column.create_state(self._state_manager)

    def __call__(self, inputs: Mapping[str, Any], *args: Any, **keywords: Any) -> Any:
        """Return the result for a dict of features, dense or sparse.

        Raises ``ValueError`` for anything else, or features that are missing.
        """
        if not isinstance(inputs, dict):
            raise ValueError(f"We expected a dictionary here. Instead we got: {inputs}")
        used = {key: hf.SparseTensor.from_value(v) if isinstance(v, hf.SparseTensorValue) else v
                for key, v in inputs.items()}
        return super().__call__(used, *args, **keywords)

    def compute_output_shape(self, input_shape: ShapeLike) -> TensorShape:
        """Return the static shape of the numbers: the given batch, or batch and time, and all."""
        width = sum(TensorShape(c.variable_shape).num_elements() or 0  # type: ignore[attr-defined]
                    for c in self._feature_columns)
        return TensorShape(input_shape)[:self._dims_kept].concatenate(width)

    def get_config(self) -> dict:
        """Return the configuration, with those of the columns."""
        columns = serialization.serialize_feature_columns(self._feature_columns)
        return {**super().get_config(), "feature_columns": columns}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Any:
        """Return the layer of a configuration."""
        columns = serialization.deserialize_feature_columns(
            config["feature_columns"], custom_objects)
        return cls(**{**config, "feature_columns": columns})


class DenseFeatures(FeaturesLayer):
    """The numbers of dense columns beside each other, ``[batch, all]``, in the order of names.

    Arguments are those of :class:`FeaturesLayer`.
    """

    _is_feature_layer = True

    def call(self, features: Any, cols_to_output_tensors: dict | None = None) -> Tensor:  # type: ignore[override]
        """Return the numbers; `cols_to_output_tensors` is filled with those of each column."""
        read, outputs = Features(features), []
        for column in self._feature_columns:
            with hf.name_scope(column.name):
                numbers = rows_of(column, column.get_dense_tensor(read, self._state_manager))
            outputs.append(numbers)
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = numbers
        check_batches(outputs, self._feature_columns)
        return hf.concat(outputs, 1)



class SequenceFeatures(FeaturesLayer):
    """The numbers of sequence columns beside each other, ``[batch, time, all]``, and the lengths.

    Arguments are those of :class:`FeaturesLayer`.
    """

    _kinds, _dims_kept = (SequenceDenseColumn,), 2
    _wanted = ("All feature_columns must be of type SequenceDenseColumn. You can wrap a "
               "sequence_categorical_column with an embedding_column or indicator_column")

    def call(self, features: Any, training: Any = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Return the numbers and the lengths, int64 ``[batch]``."""
        read, found = Features(features), []
        for column in self._feature_columns:
            with hf.name_scope(column.name):
                found.append(steps_of(column, read, self._state_manager))
        return joined(self._feature_columns, found)


class LinearModel(FeaturesLayer):
    """Weighted sums of numbers and ids, with a bias, ``[batch, units]``.

    Args:
        feature_columns: the columns; each id and each number has weights.
        units: how many sums.
        sparse_combiner: of the weights of an example's ids: "sum", "mean" or "sqrtn".
        trainable: whether optimizers may change the variables.
        name: of the layer.

    Weights and bias begin as zeros. Raises ``ValueError`` as :class:`FeaturesLayer`.
    """

    _kinds: tuple[type, ...] = (DenseColumn, CategoricalColumn)
    _wanted = "Items of feature_columns must be either a DenseColumn or CategoricalColumn"

    def __init__(self, feature_columns: Iterable[Column], units: int = 1,
                 sparse_combiner: str = "sum", trainable: bool | None = True,
                 name: str | None = None, **keywords: Any) -> None:
        super().__init__(feature_columns, trainable, name, **keywords)
        self._units, self._sparse_combiner = units, sparse_combiner
        self.bias: Any = None

    def build(self, input_shape: ShapeLike) -> None:
        """Create the variables of the columns, the weights and the bias."""
        for column in self._feature_columns:
            with hf.name_scope(column.name):
                column.create_state(self._state_manager)
                self._state_manager.create_variable(
                    column, "weights", weights_shape(column, self._units), hf.float32,
                    initializer=hf.zeros_initializer())
        self.bias = self.add_weight("bias_weights", [self._units], hf.float32,
                                    hf.zeros_initializer(), trainable=self.trainable is not False)

    def call(self, features: Any) -> Tensor:  # type: ignore[override]
        """Return the sums."""
        read, manager, sums = Features(features), self._state_manager, []
        for column in self._feature_columns:
            with hf.name_scope(column.name):
                sums.append(self._sum(column, read, manager))
        check_batches(sums, self._feature_columns)
        return hf.nn.bias_add(add_n(sums, name="weighted_sum_no_bias"), self.bias,
                              name="weighted_sum")

    def compute_output_shape(self, input_shape: ShapeLike) -> TensorShape:
        """Return the static shape of the sums."""
        return TensorShape([TensorShape(input_shape)[0], self._units])

    def _sum(self, column: Any, features: Features, manager: StateManager) -> Tensor:
        weights = manager.get_variable(column, "weights")
        if isinstance(column, CategoricalColumn):
            return sum_of_ids(column, features, manager, weights, self._sparse_combiner)
        numbers = rows_of(column, column.get_dense_tensor(features, manager))
        return hf.matmul(numbers, weights, name="weighted_sum")

    def get_config(self) -> dict:
        """Return the configuration, with those of the columns."""
        return {**super().get_config(), "units": self._units,
                "sparse_combiner": self._sparse_combiner}
