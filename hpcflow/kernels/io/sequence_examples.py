"""The kernels that parse SequenceExamples: features of the context, and lists of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, flat
from hpcflow.kernels.io.examples import keys_of, outputs, transposed
from hpcflow.kernels.io.feature_columns import Column, parse_message
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.shapes import format_shape

_CONTEXT = "Context feature"


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
        _check_defaults(defaults, dense_shapes)
        example = _Example(serialized, named, set(keys_of(flat(may_miss))))
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


def _check_defaults(defaults: tuple, shapes: list[tuple]) -> None:
    """Defaults of features of the context have their shapes, or are empty."""
    for default, shape in zip(defaults, shapes, strict=True):
        if np.size(default) and np.shape(default) != shape:
            raise invalid(f"a default has shape {format_shape(np.shape(default))}, the feature "
                          f"{format_shape(shape)}")


@kernel("ParseSequenceExample", device="CPU", fresh=True)
def _parse_sequence_examples(node: KernelNode) -> Callable:
    context_sparse, context_dense, list_sparse, list_dense = [
        list(zip(keys_of(node.attr(f"{kind}_keys")), node.attr(types), strict=True))
        for kind, types in (
            ("context_sparse", "context_sparse_types"), ("context_dense", "Tcontext_dense"),
            ("feature_list_sparse", "feature_list_sparse_types"),
            ("feature_list_dense", "feature_list_dense_types"))]
    shapes, list_shapes = (
        [tuple(shape.as_list()) for shape in node.attr(name)]
        for name in ("context_dense_shapes", "feature_list_dense_shapes"))
    may_miss = set(keys_of(node.attr("feature_list_dense_missing_assumed_empty")))

    def parse(serialized: Any, names: Any, *defaults: Any) -> Any:
        if np.ndim(serialized) != 1 or np.ndim(names) != 1 or (
                np.size(names) not in (0, np.size(serialized))):
            raise invalid("The serialized examples and their names must be vectors of one length, "
                          f"got shapes {format_shape(np.shape(serialized))} and "
                          f"{format_shape(np.shape(names))}")
        _check_defaults(defaults, shapes)
        examples = [_Example(item, name, may_miss) for item, name in zip(
            flat(serialized), flat(names) if np.size(names) else [b""] * np.size(serialized),
            strict=True)]
        name_of = [e.name for e in examples].__getitem__
        sparse = [_of_all(examples, *kind).sparse() for kind in context_sparse]
        dense = [_of_all(examples, *kind).dense(shape, default, name_of) for kind, shape, default
                 in zip(context_dense, shapes, defaults, strict=True)]
        steps = [_joined([e.steps(*kind, False).sparse() for e in examples], kind[1])
                 for kind in list_sparse]
        rows = [_padded([_rows(e.steps(*kind, True), shape, e.name_of) for e in examples],
                        shape, kind[1])
                for kind, shape in zip(list_dense, list_shapes, strict=True)]
        return outputs([*transposed(sparse), *dense, *transposed(steps), *transposed(rows)])

    return parse


def _of_all(examples: list[_Example], key: str, dtype: Any) -> Column:
    column = Column(key, dtype, _CONTEXT)
    for example in examples:
        example.add_context(column)
    return column


def _joined(parts: list[tuple], dtype: Any) -> tuple:
    """Sparse matrices, a row a step, as one sparse tensor of a batch."""
    indices = [np.concatenate([np.full((len(found), 1), row, np.int64), found], 1)
               for row, (found, _, _) in enumerate(parts)]
    sizes = np.array([shape for _, _, shape in parts], np.int64).reshape(-1, 2)
    return (np.concatenate([np.zeros((0, 3), np.int64), *indices]),
            np.concatenate([np.zeros(0, dtype.np), *[values for _, values, _ in parts]]),
            np.array([len(parts), *sizes.max(0, initial=0)], np.int64))


def _padded(rows: list[np.ndarray], shape: tuple, dtype: Any) -> tuple:
    """The steps of all examples, filled up with zeros or empty strings, and their numbers."""
    lengths = np.array([len(r) for r in rows], np.int64)
    out = np.empty((len(rows), int(lengths.max(initial=0)), *shape), dtype.np)
    out[...] = b"" if dtype.name == "string" else 0
    for place, found in zip(out, rows, strict=True):
        place[:len(found)] = found
    return out, lengths


class _Example:
    """One SequenceExample whose features are asked for by key.

    Args:
        serialized: its bytes.
        named: what errors call it, or empty.
        may_miss: keys of lists that may be absent, which then have no steps.
    """

    def __init__(self, serialized: Any, named: Any, may_miss: set[str]) -> None:
        text = as_bytes(named).decode(errors="replace") if np.size(named) == 1 else ""
        self.name = text or "<unknown>"
        message = parse_message("EncodedSequenceExample", as_bytes(serialized),
                                f"the sequence example (name: {self.name})")
        self._context = message.context.feature
        self._lists = message.feature_lists.feature_list
        self._may_miss = may_miss

    def name_of(self, row: int) -> str:
        """Return the name of the example in error messages."""
        return self.name

    def context(self, key: str, dtype: Any) -> Column:
        """A feature of the context."""
        column = Column(key, dtype, _CONTEXT)
        self.add_context(column)
        return column

    def add_context(self, column: Column) -> None:
        """Append a feature of the context to a column of many examples."""
        column.add(self._context.get(column.key), self.name)

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
