"""The kernel that parses one SequenceExample: features of the context, and lists of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, flat
from hpcflow.kernels.io.examples import keys_of, outputs, transposed
from hpcflow.kernels.io.feature_columns import Column, parse_message
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.shapes import format_shape


@kernel("ParseSingleSequenceExample", device="CPU", fresh=True)
def _parse_sequence_example(node: KernelNode) -> Callable:
    kinds = [node.attr(name) for name in (
        "context_sparse_types", "Tcontext_dense", "feature_list_sparse_types",
        "feature_list_dense_types")]
    sparse_types, dense_types, list_sparse_types, list_dense_types = kinds
    dense_shapes, list_shapes = (
        [tuple(shape.as_list()) for shape in node.attr(name)]
        for name in ("context_dense_shapes", "feature_list_dense_shapes"))
    key_count = sum(map(len, kinds))

    def parse(serialized: Any, may_miss: Any, *rest: Any) -> Any:
        keys, defaults, named = rest[:key_count], rest[key_count:-1], rest[-1]
        _check_ranks(serialized, may_miss, keys, named)
        for default, shape in zip(defaults, dense_shapes, strict=True):
            if np.size(default) and np.shape(default) != shape:
                raise invalid(f"a default has shape {format_shape(np.shape(default))}, the feature "
                              f"{format_shape(shape)}")
        example = _Example(serialized, named, may_miss)
        names = iter(keys_of(keys))
        # The four kinds in the order of their keys; the keys of one are taken before the next.
        sparse = [example.context(key, dtype).sparse()
                  for dtype, key in zip(sparse_types, names, strict=False)]
        dense = [example.context(key, dtype).dense(shape, default, example.name_of)[0]
                 for dtype, shape, default, key in
                 zip(dense_types, dense_shapes, defaults, names, strict=False)]
        list_sparse = [example.steps(key, dtype, False).sparse()
                       for dtype, key in zip(list_sparse_types, names, strict=False)]
        list_dense = [_rows(example.steps(key, dtype, True), shape, example.name_of)
                      for dtype, shape, key in
                      zip(list_dense_types, list_shapes, names, strict=False)]
        vectors = [(indices[:, 1:], values, shape[1:]) for indices, values, shape in sparse]
        return outputs([*transposed(vectors), *dense, *transposed(list_sparse), *list_dense])

    return parse


def _check_ranks(serialized: Any, may_miss: Any, keys: tuple, named: Any) -> None:
    if np.ndim(serialized):
        raise invalid("The serialized example must be a scalar, got shape "
                      f"{format_shape(np.shape(serialized))}")
    if np.ndim(may_miss) != 1:
        raise invalid("feature_list_dense_missing_assumed_empty must be a vector, got shape "
                      f"{format_shape(np.shape(may_miss))}")
    if any(np.ndim(key) for key in keys):
        raise invalid("Each key must be a scalar")
    if np.ndim(named):
        raise invalid(f"debug_name must be a scalar, got shape {format_shape(np.shape(named))}")


class _Example:
    """One SequenceExample whose features are asked for by key.

    Args:
        serialized: its bytes.
        named: what errors call it, or empty.
        may_miss: keys of lists that may be absent, which then have no steps.
    """

    def __init__(self, serialized: Any, named: Any, may_miss: Any) -> None:
        text = as_bytes(named).decode(errors="replace") if np.size(named) == 1 else ""
        self.name = text or "<unknown>"
        message = parse_message("EncodedSequenceExample", as_bytes(serialized),
                                f"the sequence example (name: {self.name})")
        self._context = message.context.feature
        self._lists = message.feature_lists.feature_list
        self._may_miss = set(keys_of(flat(may_miss)))

    def name_of(self, row: int) -> str:
        """Return the name of the example in error messages."""
        return self.name

    def context(self, key: str, dtype: Any) -> Column:
        """A feature of the context."""
        column = Column(key, dtype, "Context feature")
        column.add(self._context.get(key), self.name)
        return column

    def steps(self, key: str, dtype: Any, required: bool) -> Column:
        """A list, a row per step."""
        column, found = Column(key, dtype, "Feature list"), self._lists.get(key)
        if found is None and required and key not in self._may_miss:
            raise invalid(f"Name: {self.name}, Feature list '{key}' is required but could not be "
                          "found.  Did you mean to include it in "
                          "feature_list_dense_missing_assumed_empty or "
                          "feature_list_dense_defaults?")
        for step in found.feature if found is not None else ():
            column.add(step, self.name)
        return column


def _rows(column: Column, shape: tuple, name_of: Callable[[int], str]) -> np.ndarray:
    """The steps of a list as rows; one without values has as many as it should, or is wrong."""
    column.missing.clear()
    return column.dense(shape, None, name_of)
