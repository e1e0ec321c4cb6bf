"""The kernels that parse SequenceExamples: features of the context, and lists of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, flat
from hpcflow.kernels.io.examples import keys_of, outputs, row_splits, transposed
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
        if np.ndim(serialized) != 1 or np.ndim(names) != 1:
            raise invalid("The serialized examples and their names must be vectors, got shapes "
                          f"{format_shape(np.shape(serialized))} and "
                          f"{format_shape(np.shape(names))}")
        _check_defaults(defaults, shapes)
        examples = _examples(serialized, names, may_miss)
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


def _examples(serialized: Any, names: Any, may_miss: set[str]) -> list[_Example]:
    if np.size(names) not in (0, np.size(serialized)):
        raise invalid(f"Expected {np.size(serialized)} names, got {np.size(names)}")
    called = flat(names) if np.size(names) else [b""] * np.size(serialized)
    return [_Example(item, name, may_miss)
            for item, name in zip(flat(serialized), called, strict=True)]


@kernel("ParseSequenceExampleV2", device="CPU", fresh=True)
def _parse_sequence_examples_v2(node: KernelNode) -> Callable:
    types = [node.attr(name) for name in (
        "context_sparse_types", "Tcontext_dense", "context_ragged_value_types",
        "feature_list_sparse_types", "feature_list_dense_types",
        "feature_list_ragged_value_types")]
    split_types = [[t.np.type for t in node.attr(f"{place}_ragged_split_types")]
                   for place in ("context", "feature_list")]
    shapes, list_shapes = (
        [tuple(shape.as_list()) for shape in node.attr(name)]
        for name in ("context_dense_shapes", "feature_list_dense_shapes"))

    def parse(serialized: Any, names: Any, *rest: Any) -> Any:
        keys, may_miss, defaults = [keys_of(flat(k)) for k in rest[:6]], rest[6], rest[7:]
        for key, kind in zip(keys, types, strict=True):
            if len(key) != len(kind):
                raise invalid(f"{len(key)} keys for {len(kind)} features")
        if np.ndim(serialized) > 1:
            raise invalid("serialized must be a scalar or a vector, got shape "
                          f"{format_shape(np.shape(serialized))}")
        if np.shape(may_miss) != (len(keys[4]),):
            raise invalid(f"feature_list_dense_missing_assumed_empty must have {len(keys[4])} "
                          f"elements, got shape {format_shape(np.shape(may_miss))}")
        _check_defaults(defaults, shapes)
        missing = {key for key, may in zip(keys[4], may_miss, strict=True) if may}
        parsed = _Parsed(_examples(serialized, names, missing), not np.ndim(serialized))
        asked = [list(zip(key, kind, strict=True)) for key, kind in zip(keys, types, strict=True)]
        dense = [parsed.context_dense(*kind, shape, default) for kind, shape, default in zip(
            asked[1], shapes, defaults, strict=True)]
        rows = [parsed.list_dense(*kind, shape)
                for kind, shape in zip(asked[4], list_shapes, strict=True)]
        ragged = [parsed.context_ragged(*kind, split) for kind, split in zip(
            asked[2], split_types[0], strict=True)]
        steps = [parsed.list_ragged(*kind, split) for kind, split in zip(
            asked[5], split_types[1], strict=True)]
        return outputs([
            *transposed([parsed.context_sparse(*kind) for kind in asked[0]]), *dense,
            *transposed(ragged), *transposed([parsed.list_sparse(*kind) for kind in asked[3]]),
            *transposed(rows), *transposed(steps)])

    return parse


class _Parsed:
    """The features of a batch of SequenceExamples, or of a `single` one without a batch."""

    def __init__(self, examples: list[_Example], single: bool) -> None:
        self._examples = examples
        self._single = single

    def _name_of(self, row: int) -> str:
        return self._examples[row].name

    def context_sparse(self, key: str, dtype: Any) -> tuple:
        """Indices, values and shape."""
        return self._without_batch(_of_all(self._examples, key, dtype).sparse())

    def _without_batch(self, sparse: tuple) -> tuple:
        indices, values, shape = sparse
        return (indices[:, 1:], values, shape[1:]) if self._single else sparse

    def context_dense(self, key: str, dtype: Any, shape: tuple, default: Any) -> Any:
        """An array."""
        found = _of_all(self._examples, key, dtype).dense(shape, default, self._name_of)
        return found[0] if self._single else found

    def context_ragged(self, key: str, dtype: Any, split_type: Any) -> tuple:
        """Values and row splits, for which a single example has a zero."""
        values, counts = _of_all(self._examples, key, dtype).decode()
        return values, split_type(0) if self._single else row_splits(counts, split_type)

    def list_sparse(self, key: str, dtype: Any) -> tuple:
        """Indices, values and shape."""
        return self._without_batch(_joined(
            [e.steps(key, dtype, False).sparse() for e in self._examples], dtype))

    def list_dense(self, key: str, dtype: Any, shape: tuple) -> tuple:
        """Padded steps, and their numbers."""
        found, lengths = _padded([_rows(e.steps(key, dtype, True), shape, e.name_of)
                                  for e in self._examples], shape, dtype)
        return (found[0], lengths[0]) if self._single else (found, lengths)

    def list_ragged(self, key: str, dtype: Any, split_type: Any) -> tuple:
        """Values, the splits of the examples and those of their steps."""
        parts = [e.steps(key, dtype, False).decode() for e in self._examples]
        outer = split_type(0) if self._single else row_splits(
            np.array([len(counts) for _, counts in parts], np.int64), split_type)
        values = np.concatenate([np.zeros(0, dtype.np), *[v for v, _ in parts]])
        counts = np.concatenate([np.zeros(0, np.int64), *[c for _, c in parts]])
        return values, outer, row_splits(counts, split_type)


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
