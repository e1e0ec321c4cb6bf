"""Factors of a sparse matrix by weighted alternating least squares (Hu, Koren, Volinsky, 2008)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, name_scope
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.partition import dynamic_partition, unique
from hpcflow.ops.common.grouping import group
from hpcflow.ops.linalg.linalg import matrix_solve
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.random.random_ops import random_normal
from hpcflow.ops.sparse.sparse_math import sparse_tensor_dense_matmul
from hpcflow.ops.state.state import assign, scatter_update
from hpcflow.ops.state.variable_lists import variables_initializer
from hpcflow.ops.state.variables import Variable


class _Side(NamedTuple):
    """What belongs to the rows, or to the columns: one variable a shard of each kind."""

    size: int
    factors: list
    weights: list | None
    gramian: Variable


class _Entries(NamedTuple):
    """The nonzero entries of some rows: which of the rows and columns found they are in."""

    rows: Any
    columns: Any
    row_ids: Any
    column_ids: Any
    values: Any


class WALSModel:
    """The graph that factors a sparse matrix: A is about U V^T.

    A step over some rows sets their factors U to those that minimize
    ``sum(W * (A - U V^T)**2) + regularization * (sum(U**2) + sum(V**2))`` with V as it is, one over
    columns those of V. W is `unobserved_weight` where A has no entry, and there
    ``unobserved_weight + row_weights[i] * col_weights[j]``.

    Args:
        input_rows, input_cols: the shape of the matrix.
        n_components: the size of a row's or column's factors.
        unobserved_weight: the weight of entries that are missing.
        regularization: of the sizes of the factors; None for none.
        row_init, col_init: initial factors ``[n, n_components]``, a list of them for the shards, a
            function that returns either, or "random" for normal numbers.
        num_row_shards, num_col_shards: into how many variables the factors are cut, in order.
        row_weights, col_weights: a number, a list, or a list for each shard; both None for entries
            of the weight `unobserved_weight`.
        use_factors_weights_cache, use_gramian_cache: accepted: a step reads what it needs of them.
        use_scoped_vars: the variables are in name scopes of their kind.

    Raises ``ValueError`` for weights of another form, or as many initial values as there are not
    shards.
    """

    def __init__(self, input_rows: int, input_cols: int, n_components: int,
                 unobserved_weight: float = 0.1, regularization: float | None = None,
                 row_init: Any = "random", col_init: Any = "random", num_row_shards: int = 1,
                 num_col_shards: int = 1, row_weights: Any = 1, col_weights: Any = 1,
                 use_factors_weights_cache: bool = True, use_gramian_cache: bool = True,
                 use_scoped_vars: bool = False) -> None:
        if (row_weights is None) != (col_weights is None):
            raise ValueError("WALSModel: row_weights and col_weights are None together, got "
                             f"{row_weights!r} and {col_weights!r}")
        self._components = n_components
        self._unobserved = unobserved_weight
        self._regularization = regularization
        sides = (("row", input_rows, num_row_shards, row_weights, row_init),
                 ("col", input_cols, num_col_shards, col_weights, col_init))
        weights = [_weights(f"{name}_weights", size, shards, given, use_scoped_vars)
                   for name, size, shards, given, _ in sides]
        factors = [_factors(f"{name}_factors", size, n_components, shards, init, use_scoped_vars)
                   for name, size, shards, _, init in sides]
        empty = np.zeros([n_components, n_components], np.float32)
        self._rows, self._columns = (
            _Side(size, of, weight, Variable(empty, name=f"{name}_gramian"))
            for (name, size, *_), of, weight in zip(sides, factors, weights, strict=True))
        with name_scope("row_prepare_gramian"):
            self._row_gramian_op = _set_gramian(self._columns)
        with name_scope("col_prepare_gramian"):
            self._col_gramian_op = _set_gramian(self._rows)
        self._nothing = group()

    @property
    def row_factors(self) -> list:
        """The variables of U, one a shard."""
        return self._rows.factors

    @property
    def col_factors(self) -> list:
        """The variables of V, one a shard."""
        return self._columns.factors

    @property
    def row_weights(self) -> list | None:
        """The variables of the rows' weights, one a shard; None without weights."""
        return self._rows.weights

    @property
    def col_weights(self) -> list | None:
        """The variables of the columns' weights, one a shard; None without weights."""
        return self._columns.weights

    @property
    def initialize_op(self) -> Operation:
        """The operation that initializes factors and weights; one worker runs it once."""
        return variables_initializer([
            v for side in (self._rows, self._columns)
            for v in (*side.factors, *(side.weights or ()), side.gramian)])

    @property
    def worker_init(self) -> Operation:
        """The operation that every worker runs once; it has nothing to do."""
        return self._nothing

    @property
    def row_update_prep_gramian_op(self) -> Operation:
        """The operation that one worker runs before the steps over rows."""
        return self._row_gramian_op

    @property
    def col_update_prep_gramian_op(self) -> Operation:
        """The operation that one worker runs before the steps over columns."""
        return self._col_gramian_op

    @property
    def initialize_row_update_op(self) -> Operation:
        """The operation that every worker runs before its steps over rows; it has nothing to do."""
        return self._nothing

    @property
    def initialize_col_update_op(self) -> Operation:
        """The same before the steps over columns."""
        return self._nothing

    def update_row_factors(self, sp_input: SparseTensor | None = None,
                           transpose_input: bool = False) -> tuple[Any, Operation, Any, Any, Any]:
        """Make a step over the rows of `sp_input`, which has the indices of the whole matrix.

        Returns: the new factors ``[rows, n_components]`` in the order in which their rows come;
        the operation that sets them; the loss of these rows without regularization, times
        ``input_rows / rows``; the regularization; the sum of weights, which for the entries is
        times this, too. With `transpose_input`, `sp_input` has the rows as its columns.
        """
        return self._step(self._rows, self._columns, sp_input, transpose_input, None, "row_update")

    def update_col_factors(self, sp_input: SparseTensor | None = None,
                           transpose_input: bool = False) -> tuple[Any, Operation, Any, Any, Any]:
        """Make a step over the columns of `sp_input`: see :meth:`update_row_factors`."""
        return self._step(self._columns, self._rows, sp_input, not transpose_input, None,
                          "col_update")

    def project_row_factors(self, sp_input: SparseTensor | None = None,
                            transpose_input: bool = False, projection_weights: Any = None) -> Any:
        """Return the factors of the rows of `sp_input`, which need not be rows of the matrix.

        `projection_weights` are a number, 1 unless given, or one for each row.
        """
        weights = 1.0 if projection_weights is None else projection_weights
        return self._step(self._rows, self._columns, sp_input, transpose_input, weights,
                          "row_update")[0]

    def project_col_factors(self, sp_input: SparseTensor | None = None,
                            transpose_input: bool = False, projection_weights: Any = None) -> Any:
        """Return the factors of the columns of `sp_input`: see :meth:`project_row_factors`."""
        weights = 1.0 if projection_weights is None else projection_weights
        return self._step(self._columns, self._rows, sp_input, not transpose_input, weights,
                          "col_update")[0]

    def _step(self, left: _Side, right: _Side, given: SparseTensor | None, transposed: bool,
              left_weights: Any, name: str) -> tuple[Any, Operation, Any, Any, Any]:
        if not isinstance(given, SparseTensor):
            raise ValueError(f"WALSModel: sp_input is not a SparseTensor, but {given!r}")
        entries = _entries(given, transposed)
        fixed = embedding_lookup(right.factors, entries.column_ids, partition_strategy="div")
        weights = self._entry_weights(left, right, entries, left_weights)
        new = self._solved(entries, fixed, right.gramian, weights)
        update = _set_rows(left, entries.row_ids, new, name)
        return (new, update, *self._losses(left, right, entries, fixed, new, weights))

    def _entry_weights(self, left: _Side, right: _Side, entries: _Entries, given: Any) -> Any:
        """The products of the weights of row and column ``[entries]``, or None."""
        if left.weights is None or right.weights is None:
            return None
        if given is None:
            of_rows = embedding_lookup(left.weights, entries.row_ids, partition_strategy="div")
        else:
            of_rows = raw_ops.Mul(cast(convert_to_tensor(given), dtypes.float32),
                                  raw_ops.OnesLike(cast(entries.row_ids, dtypes.float32)))
        of_columns = embedding_lookup(right.weights, entries.column_ids, partition_strategy="div")
        return raw_ops.Mul(_take(of_rows, entries.rows), _take(of_columns, entries.columns))

    def _solved(self, entries: _Entries, fixed: Any, gramian: Any, weights: Any) -> Any:
        """The factors that solve the normal equations of each row."""
        left = self._unobserved * gramian
        if self._regularization is not None:
            left += self._regularization * np.eye(self._components, dtype=np.float32)
        values = entries.values * (self._unobserved if weights is None
                                   else weights + self._unobserved)
        right: Any = sparse_tensor_dense_matmul(_matrix(entries, values), fixed)
        if weights is None:
            return raw_ops.Transpose(matrix_solve(left, raw_ops.Transpose(right, [1, 0])), [1, 0])
        squares = raw_ops.Mul(raw_ops.ExpandDims(fixed, 2), raw_ops.ExpandDims(fixed, 1))
        size = self._components
        own = sparse_tensor_dense_matmul(_matrix(entries, weights),
                                         raw_ops.Reshape(squares, [-1, size * size]))
        left = raw_ops.Add(raw_ops.Reshape(own, [-1, size, size]), left)
        return raw_ops.Squeeze(matrix_solve(left, raw_ops.ExpandDims(right, 2)), squeeze_dims=[2])

    def _losses(self, left: _Side, right: _Side, entries: _Entries, fixed: Any, new: Any,
                weights: Any) -> tuple[Any, Any, Any]:
        """Loss, regularization and sum of weights of a step."""
        factor = left.size / cast(raw_ops.Size(entries.row_ids), dtypes.float32)
        found = reduce_sum(raw_ops.Mul(_take(new, entries.rows), _take(fixed, entries.columns)), 1)
        errors = raw_ops.Square(raw_ops.Sub(entries.values, found))
        own: Any = raw_ops.MatMul(new, new, transpose_a=True)
        loss = self._unobserved * (reduce_sum(errors) - reduce_sum(raw_ops.Square(found))
                                   + reduce_sum(raw_ops.Mul(own, right.gramian)))
        total = convert_to_tensor(self._unobserved * left.size * right.size, dtypes.float32)
        if weights is not None:
            loss += reduce_sum(weights * errors)
            total += reduce_sum(weights) * factor
        if self._regularization is None:
            return loss * factor, convert_to_tensor(0.0), total
        traces = [reduce_sum(raw_ops.MatrixDiagPart(x)) for x in (own, right.gramian)]
        return loss * factor, self._regularization * (traces[0] * factor + traces[1]), total


def _shard_sizes(size: int, shards: int) -> list[int]:
    """The sizes of the shards, of which the first ones are larger by one where need be."""
    each, more = divmod(size, shards)
    return [each + 1] * more + [each] * (shards - more)


def _variables(name: str, values: Sequence, scoped: bool) -> list:
    with name_scope(name) if scoped else contextlib.nullcontext():
        return [Variable(value, dtype=dtypes.float32, name=f"{name}_shard_{i}")
                for i, value in enumerate(values)]


def _factors(name: str, size: int, components: int, shards: int, given: Any, scoped: bool) -> list:
    given = given() if callable(given) else given
    if isinstance(given, str) and given == "random":
        return _variables(name, [lambda n=n: random_normal([n, components])
                                 for n in _shard_sizes(size, shards)], scoped)
    values = given if isinstance(given, list) or shards > 1 else [given]
    if len(values) != shards:
        raise ValueError(f"WALSModel: {len(values)} initial values of the {shards} {name}")
    return _variables(name, values, scoped)


def _weights(name: str, size: int, shards: int, given: Any, scoped: bool) -> list | None:
    if given is None:
        return None
    if isinstance(given, Iterable):
        lists = list(given)
        if shards == 1 and len(lists) == size:
            lists = [lists]
        if len(lists) != shards:
            raise ValueError(f"WALSModel: {name} for {shards} shards, but not as many lists")
        return _variables(name, [np.asarray(x, np.float32) for x in lists], scoped)
    if not isinstance(given, Real) or given < 0:
        raise ValueError(f"WALSModel: {name} are {given!r}, expected None, a number of at least 0, "
                         "or a list of such for each shard")
    return _variables(name, [np.full([n], given, np.float32) for n in _shard_sizes(size, shards)],
                      scoped)


def _set_gramian(side: _Side) -> Operation:
    """The operation that sets the sum of the products of all factors with each other."""
    products = [raw_ops.MatMul(f, f, transpose_a=True) for f in side.factors]
    with colocate_with(side.gramian):
        return assign(side.gramian, raw_ops.AddN(products)).op


def _entries(given: SparseTensor, transposed: bool) -> _Entries:
    """The entries, with the rows and columns that they are in counted as they come."""
    indices: Any = given.indices
    ids = [unique(indices[:, axis]) for axis in (0, 1)]
    (row_ids, rows), (column_ids, columns) = ids[::-1] if transposed else ids
    return _Entries(rows, columns, row_ids, column_ids, given.values)


def _matrix(entries: _Entries, values: Any) -> SparseTensor:
    """The sparse matrix of the rows and columns found, with `values` for its entries."""
    indices = raw_ops.Pack([entries.rows, entries.columns], axis=1)
    shape = raw_ops.Pack([raw_ops.Size(entries.row_ids), raw_ops.Size(entries.column_ids)])
    return SparseTensor(cast(indices, dtypes.int64), values, cast(shape, dtypes.int64))


def _take(values: Any, ids: Any) -> Tensor:
    return raw_ops.GatherV2(values, ids, np.int32(0))


def _set_rows(side: _Side, ids: Any, values: Any, name: str) -> Operation:
    """The operation that sets rows of the factors in the shards that have them."""
    shards = side.factors
    if len(shards) == 1:
        return scatter_update(shards[0], ids, values, name=name).op
    each, more = divmod(side.size, len(shards))
    large = more * (each + 1)
    first: Any = raw_ops.Less(ids, np.int64(large))
    where = raw_ops.SelectV2(first, ids // (each + 1), more + (ids - large) // max(each, 1))
    within = raw_ops.SelectV2(first, ids % (each + 1), (ids - large) % max(each, 1))
    where = cast(where, dtypes.int32)
    parts = zip(shards, dynamic_partition(within, where, len(shards)),
                dynamic_partition(values, where, len(shards)), strict=True)
    return group(*[scatter_update(shard, i, v) for shard, i, v in parts], name=name)
