"""Columns of embeddings of ids, of their own or shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from hpcflow import dtypes
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.feature_column.categorical import same_kind
from hpcflow.feature_column.column import (
    OF_IDS,
    CategoricalColumn,
    Column,
    Ids,
    Steps,
    buckets_of,
    check_is,
    ids_of,
    spec_of,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.managers import StateManager
from hpcflow.feature_column.own import OwnDense, OwnSequence
from hpcflow.feature_column.steps import check_no_sequence, check_sequence, lengths_of
from hpcflow.graph.graph import (
    Graph,
    get_collection_ref,
    get_default_graph,
    init_scope,
    name_scope,
)
from hpcflow.graph.likes import InitializerLike
from hpcflow.ops.state.initializers import TruncatedNormal
from hpcflow.ops.state.variables import Variable
from hpcflow.shapes import TensorShape
from hpcflow.train.warm_starting import init_from_checkpoint


class EmbeddingColumn(OwnDense, OwnSequence):
    """The embeddings of ids, combined for each example or step."""

    categorical_column: Any
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    _fields: ClassVar[tuple[str, ...]] = (
        "categorical_column", "dimension", "combiner", "initializer", "ckpt_to_load_from",
        "tensor_name_in_ckpt", "max_norm", "trainable")
    _kind = "embedding_column"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of ids."""
        return f"{self.categorical_column.name}_embedding"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing configuration of the column of ids."""
        return spec_of(self.categorical_column)

    def transform_feature(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return what the column of ids makes of its features."""
        return transformation_cache.get(self.categorical_column, state_manager)

    @property
    def variable_shape(self) -> TensorShape:
        """The size of an embedding."""
        return TensorShape([self.dimension])

    def create_state(self, state_manager: StateManager) -> None:
        """Let a manager create the table of embeddings."""
        state_manager.create_variable(
            self, name="embedding_weights", shape=self._table_shape(), dtype=dtypes.float32,
            trainable=self.trainable, use_resource=True, initializer=self.initializer)

    def _table_shape(self) -> tuple[int, int]:
        return buckets_of(self.categorical_column), self.dimension

    def _table(self, state_manager: Any) -> Any:
        table = state_manager.get_variable(self, name="embedding_weights")
        if self.ckpt_to_load_from is not None:
            init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: table})
        return table

    def _ids(self, features: Features, state_manager: Any) -> Ids:
        return ids_of(self.categorical_column, features, state_manager)

    def _looked_up(self, ids: Ids, state_manager: Any) -> Any:
        return safe_embedding_lookup_sparse(
            self._table(state_manager), ids.id_tensor, ids.weight_tensor, self.combiner,
            max_norm=self.max_norm, name=f"{self.name}_weights")

    def get_dense_tensor(self, transformation_cache: Features, state_manager: Any) -> Any:
        """Return the embeddings. Raises ``ValueError`` for ids of sequences."""
        check_no_sequence(self, self._kind)
        return self._looked_up(self._ids(transformation_cache, state_manager), state_manager)

    def get_sequence_dense_tensor(self, transformation_cache: Features,
                                  state_manager: Any) -> Steps:
        """Return the embeddings of each step. Raises ``ValueError`` unless ids are of sequences."""
        check_sequence(self, self._kind)
        ids = self._ids(transformation_cache, state_manager)
        return Steps(self._looked_up(ids, state_manager), lengths_of(ids.id_tensor))


class SharedEmbeddingColumn(EmbeddingColumn):
    """Embeddings of ids in a table that other columns read, which a collection of the graph keeps.
    """

    shared_embedding_collection_name: str
    _fields = (*EmbeddingColumn._fields, "shared_embedding_collection_name")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of ids."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def _var_scope_name(self) -> str:
        return self.shared_embedding_collection_name

    def create_state(self, state_manager: StateManager) -> None:
        """Let the first manager of a graph create the table of embeddings."""
        kept = get_collection_ref(self.shared_embedding_collection_name)
        if not kept:
            super().create_state(state_manager)
            kept.append(super()._table(state_manager))
        found = kept[0]
        if tuple(found.get_shape().as_list()) != self._table_shape():
            raise ValueError(
                f"Shared embedding collection {self.shared_embedding_collection_name} contains "
                f"variable {found.name} of unexpected shape {found.get_shape()}. Expected shape is "
                f"{self._table_shape()}.")

    def _table(self, state_manager: Any) -> Any:
        return get_collection_ref(self.shared_embedding_collection_name)[0]


class SharedTable:
    """A table of embeddings that columns share: a variable of each graph that they are built in."""

    def __init__(self, name: str, shape: tuple[int, int], initializer: Any, trainable: bool,
                 checkpoint: str | None, tensor_name: str | None) -> None:
        self._name, self._shape, self._initializer = name, shape, initializer
        self._trainable, self._checkpoint, self._tensor_name = trainable, checkpoint, tensor_name
        self._made: WeakKeyDictionary[Graph, Any] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The name of the variables."""
        return self._name

    @property
    def embedding_weights(self) -> Any:
        """The variable of the default graph."""
        graph = get_default_graph()
        if graph not in self._made:
            self._made[graph] = self._variable()
        return self._made[graph]

    def _variable(self) -> Any:
        with init_scope(), name_scope(None):
            made = Variable(lambda: self._initializer(self._shape, dtypes.float32),
                            self._trainable, name=self._name, dtype=dtypes.float32)
        if self._checkpoint is not None:
            init_from_checkpoint(self._checkpoint, {self._tensor_name: made})
        return made

    def __deepcopy__(self, memo: dict) -> SharedTable:
        """Return itself: copies of a column share its table."""
        return self


class SharedTableColumn(EmbeddingColumn):
    """Embeddings of ids in a table that other columns read, for layers of later releases."""

    shared_embedding_column_creator: SharedTable
    _fields = ("categorical_column", "shared_embedding_column_creator", "combiner", "max_norm",
               "dimension")
    _kind = "embedding_column"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the column of ids."""
        return f"{self.categorical_column.name}_shared_embedding"

    def create_state(self, state_manager: StateManager) -> None:
        """Do nothing: the table belongs to the graph."""

    def _table(self, state_manager: Any) -> Any:
        return self.shared_embedding_column_creator.embedding_weights

    def _get_config(self) -> dict[str, Any]:
        raise NotImplementedError(f"{self.name}: columns that share a table have no configuration")


def embedding_column(categorical_column: CategoricalColumn, dimension: int,
                     combiner: str = "mean", initializer: InitializerLike | None = None,
                     ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
                     max_norm: float | None = None, trainable: bool = True,
                     use_safe_embedding_lookup: bool = True) -> Column:
    """The embeddings of ids, combined for each example; zeros for one without ids.

    Args:
        categorical_column: a column of ids.
        dimension: size of the embeddings.
        combiner: "mean", "sqrtn" or "sum".
        initializer: of the embeddings; normal with deviation 1/sqrt(`dimension`) by default.
        ckpt_to_load_from, tensor_name_in_ckpt: a checkpoint to begin with, and its variable.
        max_norm: embeddings are clipped to this length.
        trainable: whether they are trained.
        use_safe_embedding_lookup: accepted: examples may always be without ids.

    Raises ``ValueError`` for no dimension, an initializer that cannot be called, or one of the two
    arguments of a checkpoint alone.
    """
    check_is(OF_IDS, categorical_column, "categorical_column must be a categorical column")
    _check_dimension(dimension)
    _check_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
    if initializer is not None and not callable(initializer):
        raise ValueError("initializer must be callable if specified. Embedding of column_name: "
                         f"{categorical_column.name}")
    return EmbeddingColumn(
        categorical_column=categorical_column, dimension=dimension, combiner=combiner,
        initializer=initializer or _normal(dimension), ckpt_to_load_from=ckpt_to_load_from,
        tensor_name_in_ckpt=tensor_name_in_ckpt, max_norm=max_norm, trainable=trainable)


def _normal(dimension: int) -> TruncatedNormal:
    return TruncatedNormal(0.0, 1 / math.sqrt(dimension))


def _check_dimension(dimension: int | None) -> None:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")


def _check_checkpoint(path: str | None, tensor_name: str | None) -> None:
    if (path is None) != (tensor_name is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none "
                         "of them.")


def shared_embedding_columns(categorical_columns: Sequence[CategoricalColumn], dimension: int,
                             combiner: str = "mean", initializer: InitializerLike | None = None,
                             shared_embedding_collection_name: str | None = None,
                             ckpt_to_load_from: str | None = None,
                             tensor_name_in_ckpt: str | None = None, max_norm: float | None = None,
                             trainable: bool = True,
                             use_safe_embedding_lookup: bool = True) -> list[Column]:
    """Embeddings of several columns with as many ids, in one table; a column for each.

    `shared_embedding_collection_name` names the table, and the collection of the graph that keeps
    it; by default it is made of the names of the columns. The other arguments are those of
    :func:`embedding_column`. Raises ``ValueError`` for columns with other numbers of ids.
    """
    name, initializer = _shared(categorical_columns, dimension, initializer, ckpt_to_load_from,
                                tensor_name_in_ckpt, shared_embedding_collection_name)
    return [SharedEmbeddingColumn(
        categorical_column=column, dimension=dimension, combiner=combiner, initializer=initializer,
        ckpt_to_load_from=ckpt_to_load_from, tensor_name_in_ckpt=tensor_name_in_ckpt,
        max_norm=max_norm, trainable=trainable, shared_embedding_collection_name=name)
        for column in categorical_columns]


def shared_embedding_columns_v2(
        categorical_columns: Sequence[CategoricalColumn], dimension: int, combiner: str = "mean",
        initializer: InitializerLike | None = None,
        shared_embedding_collection_name: str | None = None,
        ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
        max_norm: float | None = None, trainable: bool = True,
        use_safe_embedding_lookup: bool = True) -> list[Column]:
    """Embeddings of several columns in one table, as layers of later releases read them.

    The table is a variable that is called `shared_embedding_collection_name`, outside of all
    scopes. Arguments and errors are those of :func:`shared_embedding_columns`.
    """
    name, made = _shared(categorical_columns, dimension, initializer, ckpt_to_load_from,
                         tensor_name_in_ckpt, shared_embedding_collection_name)
    table = SharedTable(name, (buckets_of(categorical_columns[0]), dimension), made, trainable,
                        ckpt_to_load_from, tensor_name_in_ckpt)
    return [SharedTableColumn(
        categorical_column=column, shared_embedding_column_creator=table, combiner=combiner,
        max_norm=max_norm, dimension=dimension) for column in categorical_columns]


def _shared(categorical_columns: Sequence[CategoricalColumn], dimension: int,
            initializer: InitializerLike | None, path: str | None, tensor_name: str | None,
            name: str | None) -> tuple[str, Any]:
    """The name of a table that columns share, and its initializer."""
    columns = sorted(categorical_columns, key=lambda c: c.name)
    _check_dimension(dimension)
    _check_checkpoint(path, tensor_name)
    if initializer is not None and not callable(initializer):
        raise ValueError("initializer must be callable if specified.")
    for column in columns:
        check_is(OF_IDS, column, "categorical_column must be a categorical column")
    if len({buckets_of(c) for c in columns}) > 1:
        raise ValueError("To use shared_embedding_column, all categorical_columns must have the "
                         "same number of buckets. Given: "
                         f"{', '.join(f'{c.name} with {buckets_of(c)}' for c in columns)}")
    same_kind(columns)
    return (name or "_".join(c.name for c in columns) + "_shared_embedding",
            initializer or _normal(dimension))
