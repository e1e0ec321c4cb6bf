"""Kernels that parse examples into columns: ParseExample and its later forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, flat
from hpcflow.kernels.io.feature_columns import Column, NameOf, parse_message
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.shapes import format_shape


def keys_of(values: Any) -> list[str]:
    """Strings as text."""
    return [as_bytes(v).decode(errors="replace") for v in values]


def transposed(sparse: Sequence[tuple]) -> list[np.ndarray]:
    """Return all indices, then all values, then all shapes of sparse features."""
    return [part for parts in zip(*sparse, strict=True) for part in parts]


def outputs(values: list) -> Any:
    """Return `values` in the form of kernel results: a single one is not put in a tuple."""
    return values[0] if len(values) == 1 else tuple(values)


class Features:
    """The features that a parsing node reads, from its attributes.

    Sparse, dense and ragged features come in this order.
    """

    def __init__(self, node: KernelNode) -> None:
        self.sparse = node.attr("sparse_types")
        self.dense = node.attr("Tdense")
        self.shapes = node.attr("dense_shapes")
        self.ragged = node.attr("ragged_value_types", [])
        self.splits = node.attr("ragged_split_types", [])

    @property
    def types(self) -> list:
        """The types of all features."""
        return [*self.sparse, *self.dense, *self.ragged]

    def check(self, defaults: Any) -> None:
        """Refuse defaults whose shapes are not those of their features."""
        for default, shape in zip(defaults, self.shapes, strict=True):
            dims = tuple(shape.as_list())
            if None not in dims and np.size(default) and np.shape(default) != dims:
                raise invalid(f"a default has shape {format_shape(np.shape(default))}, its feature "
                              f"{format_shape(dims)}")

    def parse(self, items: list[bytes], names: Any, keys: list[str], defaults: Any) -> tuple:
        """The columns of sparse, dense and ragged features of these examples."""
        if np.ndim(names) > 1 or np.size(names) not in (0, len(items)):
            raise invalid(f"Expected {len(items)} names, got {np.size(names)}")
        called = keys_of(flat(names)) if np.size(names) else ["<unknown>"] * len(items)
        columns = list(map(Column, keys, self.types))
        for name, item in zip(called, items, strict=True):
            features = parse_message("EncodedExample", item,
                                     f"the example (name: {name})").features.feature
            for column in columns:
                column.add(features.get(column.key), name)
        first, second = len(self.sparse), len(self.sparse) + len(self.dense)
        dense = [_dense(column, shape, default, called.__getitem__) for column, shape, default in
                 zip(columns[first:second], self.shapes, defaults, strict=True)]
        return [c.sparse() for c in columns[:first]], dense, [
            c.decode() for c in columns[second:]]


def _dense(column: Column, shape: Any, default: Any, names: NameOf) -> np.ndarray:
    dims = tuple(shape.as_list())
    if dims and dims[0] is None:
        return column.padded(dims[1:], default, names)
    return column.dense(dims, default, names)


def _check_examples(serialized: Any, names: Any) -> None:
    if np.ndim(serialized) != 1 or np.ndim(names) != 1:
        raise invalid("The serialized examples and their names must be vectors, got shapes "
                      f"{format_shape(np.shape(serialized))} and {format_shape(np.shape(names))}")


@kernel("ParseExample", device="CPU", fresh=True)
def _parse_example(node: KernelNode) -> Callable:
    features = Features(node)
    count = len(features.types)

    def parse(serialized: Any, names: Any, *rest: Any) -> Any:
        _check_examples(serialized, names)
        sparse, dense, _ = features.parse(flat(serialized), names, keys_of(rest[:count]),
                                          rest[count:])
        return outputs([*transposed(sparse), *dense])

    return parse


@kernel("ParseExampleV2", device="CPU", fresh=True)
def _parse_example_v2(node: KernelNode) -> Callable:
    features = Features(node)

    def parse(serialized: Any, names: Any, sparse_keys: Any, dense_keys: Any, ragged_keys: Any,
              *defaults: Any) -> Any:
        keys = [keys_of(flat(k)) for k in (sparse_keys, dense_keys, ragged_keys)]
        if list(map(len, keys)) != list(map(len, (features.sparse, features.dense,
                                                  features.ragged))):
            raise invalid(f"{sum(map(len, keys))} keys for {len(features.types)} features")
        if np.ndim(serialized) > 1:
            raise invalid("serialized must be a scalar or a vector, got shape "
                          f"{format_shape(np.shape(serialized))}")
        features.check(defaults)
        single = not np.ndim(serialized)
        if single and np.ndim(names) == 1 and np.size(names) == 1:
            raise invalid("one example has a scalar name, or an empty vector")
        sparse, dense, ragged = features.parse(flat(serialized), names,
                                               [key for part in keys for key in part], defaults)
        if single:
            sparse, dense = _of_one(sparse, dense)
        rows = [np.zeros(0, kind.np) if single else row_splits(counts, kind.np)
                for (_, counts), kind in zip(ragged, features.splits, strict=True)]
        return outputs([*transposed(sparse), *dense, *[values for values, _ in ragged], *rows])

    return parse


@kernel("ParseSingleExample", device="CPU", fresh=True)
def _parse_single_example(node: KernelNode) -> Callable:
    features = Features(node)
    keys = keys_of([*node.attr("sparse_keys"), *node.attr("dense_keys")])

    def parse(serialized: Any, *defaults: Any) -> Any:
        if np.ndim(serialized):
            raise invalid("The serialized example must be a scalar, got shape "
                          f"{format_shape(np.shape(serialized))}")
        features.check(defaults)
        sparse, dense, _ = features.parse(flat(serialized), (), keys, defaults)
        sparse, dense = _of_one(sparse, dense)
        return outputs([*transposed(sparse), *dense])

    return parse


def _of_one(sparse: list, dense: list) -> tuple[list, list]:
    """Return the features of the only example, without the batch dimension."""
    vectors = [(indices[:, 1:], values, shape[1:]) for indices, values, shape in sparse]
    return vectors, [rows[0] for rows in dense]


def row_splits(counts: np.ndarray, dtype: Any) -> np.ndarray:
    """Where each row begins, and the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(dtype)
