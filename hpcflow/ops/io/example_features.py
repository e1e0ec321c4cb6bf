"""Examples: ``parse_example`` and its relatives, and the classes that say what to parse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from hpcflow import dtypes
from hpcflow.dtypes import DType, as_dtype
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.sparse.sparse_changes import sparse_merge
from hpcflow.shapes import TensorShape, as_shape

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "SparseFeature",
    "VarLenFeature",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]


class VarLenFeature(NamedTuple):
    """A feature with any number of values, parsed into a ``SparseTensor``.

    `dtype` is float32, int64 or string, here and in all other features.
    """

    dtype: Any


class SparseFeature(NamedTuple):
    """A sparse vector of length `size`, from a feature with its indices and one with its values.

    With lists of index keys and of sizes it is a tensor of as many dimensions. `already_sorted`:
    the indices of every example ascend, so they need not be sorted.
    """

    index_key: str | list[str]
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class FixedLenFeature(NamedTuple):
    """A feature of a fixed shape. `default_value` is for examples without it; None: an error."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A list of values of a fixed shape; examples with fewer are filled with `default_value`.

    In a sequence example each step has one such value. `allow_missing`: the list may be missing,
    and then is empty.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class _Plan:
    """The arguments of a parsing op: keys, dtypes, shapes and defaults, in the order of keys."""

    def __init__(self, features: dict[str, Any] | None, allowed: tuple[type, ...]) -> None:
        self.sparse: dict[str, Any] = {}  # key -> dtype
        self.dense: dict[str, Any] = {}  # key -> feature
        self.merged: dict[str, SparseFeature] = {}
        self._asked: set[str] = set()
        for key in sorted(features or {}):
            feature = features[key]  # type: ignore[index]
            if not isinstance(feature, allowed):
                raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key "
                                 f"'{key}'.")
            self._add(key, feature)

    def _add(self, key: str, feature: Any) -> None:
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}.")
        if isinstance(feature, VarLenFeature):
            self._add_sparse(key, feature.dtype)
            self._asked.add(key)
        elif isinstance(feature, SparseFeature):
            if not feature.index_key or not feature.value_key:
                raise ValueError(f"Missing index_key or value_key for SparseFeature {key}.")
            for index_key in _index_keys(feature):
                self._add_sparse(index_key, dtypes.int64)
            self._add_sparse(feature.value_key, feature.dtype)
            self.merged[key] = feature
        else:
            _check_dense(key, feature)
            self.dense[key] = feature
        both = self.sparse.keys() & self.dense.keys()
        if both:
            raise ValueError(f"Dense and sparse keys must not intersect; intersection: {both}")

    def _add_sparse(self, key: str, dtype: DType) -> None:
        dtype = as_dtype(dtype)
        if self.sparse.setdefault(key, dtype) != dtype:
            raise ValueError(f"Conflicting type {dtype.name} vs {self.sparse[key].name} for "
                             f"feature {key}.")

    def shapes(self) -> list[TensorShape]:
        """The shape of each dense feature; None in front for lists."""
        return [TensorShape([None]).concatenate(f.shape)
                if isinstance(f, FixedLenSequenceFeature) else as_shape(f.shape)
                for f in self.dense.values()]

    def types(self) -> list:
        """The dtype of each dense feature."""
        return [as_dtype(f.dtype) for f in self.dense.values()]

    def defaults(self) -> list[Tensor]:
        """A tensor for each dense feature, without elements where there is no default."""
        return [_default_of(*item) for item in self.dense.items()]

    def results(self, sparse: Iterable[Any], dense: Iterable[Tensor]) -> dict[str, Any]:
        """Key -> what was parsed."""
        parsed = dict(zip(self.sparse, sparse, strict=True))
        found = {key: value for key, value in parsed.items() if key in self._asked}
        for key, feature in self.merged.items():
            sizes = feature.size if isinstance(feature.size, (list, tuple)) else [feature.size]
            found[key] = sparse_merge([parsed[k] for k in _index_keys(feature)],
                                      parsed[feature.value_key], sizes,
                                      already_sorted=feature.already_sorted)
        return {**found, **dict(zip(self.dense, dense, strict=True))}


def _index_keys(feature: SparseFeature) -> list[str]:
    keys = feature.index_key
    return [keys] if isinstance(keys, str) else list(keys)


def _check_dense(key: str, feature: FixedLenFeature) -> None:
    if feature.shape is None:
        raise ValueError(f"Missing shape for feature {key}.")
    dims = as_shape(feature.shape)
    if isinstance(feature, FixedLenSequenceFeature):
        if not dims.is_fully_defined():
            raise ValueError(f"The shape of feature {key} must be fully defined, got {dims}.")
    elif dims.ndims and dims.as_list()[0] is None:
        raise ValueError(f"First dimension of shape for feature {key} unknown. Consider using "
                         "FixedLenSequenceFeature.")
    elif not dims.is_fully_defined():
        raise ValueError(f"All dimensions of shape for feature {key} need to be known but received "
                         f"{tuple(dims.as_list())}.")


def _default_of(key: str, feature: FixedLenFeature) -> Tensor:
    dtype, default = as_dtype(feature.dtype), feature.default_value
    if isinstance(feature, FixedLenSequenceFeature):
        blank: Any = "" if dtype is dtypes.string else 0
        tensor = convert_to_tensor(blank if default is None else default, dtype)
        if tensor.get_shape().num_elements() == 0:
            raise ValueError("Cannot reshape a tensor with 0 elements to shape []: the default "
                             f"value of feature {key}")
        return tensor
    if default is None:
        return convert_to_tensor([], dtype)
    name = "key_" + re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
    tensor = convert_to_tensor(default, dtype, name=name)
    return raw_ops.Reshape(tensor, as_shape(feature.shape).as_list())


def _sparse_of(indices: list, values: list, shapes: list) -> list[SparseTensor]:
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes, strict=True)]


def parse_example(serialized: TensorLike, features: dict[str, Any], name: str | None = None,
                  example_names: TensorLike | None = None) -> dict[str, Any]:
    """Parse a vector of serialized ``Example`` messages.

    Args:
        serialized: strings, a message each.
        features: key -> :class:`FixedLenFeature` (a tensor ``[batch, *shape]``),
            :class:`FixedLenSequenceFeature` (a tensor ``[batch, longest, *shape]``),
            :class:`VarLenFeature` or :class:`SparseFeature` (a ``SparseTensor``).
        name: name scope.
        example_names: names of the examples, for messages.

    Returns:
        Key -> tensor or ``SparseTensor``.

    Raises ``ValueError`` for features that cannot be; when run ``InvalidArgumentError`` for
    damaged messages, values of another type or number, and features that are missing without a
    default.
    """
    if not features:
        raise ValueError(f"Missing: features was {features}.")
    plan = _Plan(features, (VarLenFeature, SparseFeature, FixedLenFeature,
                            FixedLenSequenceFeature))
    return _parse_examples(serialized, plan, name, example_names)


def _parse_examples(serialized: TensorLike, plan: _Plan, name: str | None,
                    example_names: TensorLike | None) -> dict[str, Any]:
    for key, feature in plan.dense.items():
        if isinstance(feature, FixedLenSequenceFeature) and not feature.allow_missing:
            raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be "
                             f"True (feature {key}).")
    with name_scope(name, "ParseExample", [serialized, example_names]):
        names = convert_to_tensor([] if example_names is None else example_names, dtypes.string,
                                  name="names")
        indices, values, shapes, dense = raw_ops.ParseExample(
            serialized=serialized, names=names, sparse_keys=list(plan.sparse),
            dense_keys=list(plan.dense), dense_defaults=plan.defaults(),
            sparse_types=list(plan.sparse.values()), Tdense=plan.types(),
            dense_shapes=plan.shapes())
        return plan.results(_sparse_of(indices, values, shapes), dense)


def parse_single_example(serialized: TensorLike, features: dict[str, Any], name: str | None = None,
                         example_names: TensorLike | None = None) -> dict[str, Any]:
    """Parse one serialized ``Example``, a scalar string; as :func:`parse_example`, no batch.

    `example_names` is a scalar, too.
    """
    if not features:
        raise ValueError("Missing features.")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = convert_to_tensor(serialized, dtypes.string)
        serialized.get_shape().assert_has_rank(0)
        if example_names is not None:
            example_names = raw_ops.ExpandDims(convert_to_tensor(example_names, dtypes.string), 0)
        parsed = parse_example(raw_ops.ExpandDims(serialized, 0), features,
                               example_names=example_names)
        return {key: _only(value) for key, value in parsed.items()}


def _only(value: Tensor) -> Any:
    """The only row of a batch."""
    if isinstance(value, Tensor):
        return raw_ops.Squeeze(value, squeeze_dims=[0])
    return SparseTensor(raw_ops.Slice(value.indices, [0, 1], [-1, -1]), value.values,
                         raw_ops.Slice(value.dense_shape, [1], [-1]))


def parse_single_sequence_example(
        serialized: TensorLike, context_features: dict[str, Any] | None = None,
        sequence_features: dict[str, Any] | None = None, example_name: Any = None,
        name: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse one serialized ``SequenceExample``, a scalar string.

    Args:
        serialized: the message.
        context_features: key -> :class:`FixedLenFeature` or :class:`VarLenFeature`.
        sequence_features: key -> :class:`FixedLenSequenceFeature` (a tensor ``[steps, *shape]``)
            or :class:`VarLenFeature` (a ``SparseTensor`` with a row for each step).
        example_name: its name, for messages.
        name: name scope.

    Returns:
        Two dicts: of the context, and of the sequences.

    Raises as :func:`parse_example`.
    """
    context, lists, may_miss = _sequence_plans(context_features, sequence_features)
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        debug_name = convert_to_tensor("" if example_name is None else example_name,
                                       dtypes.string, name="debug_name")
        found = raw_ops.ParseSingleSequenceExample(
            serialized=serialized,
            feature_list_dense_missing_assumed_empty=convert_to_tensor(may_miss, dtypes.string),
            debug_name=debug_name, **_sequence_arguments(context, lists))
        return _sequence_results(context, lists, found)


def parse_sequence_example(
        serialized: TensorLike, context_features: dict[str, Any] | None = None,
        sequence_features: dict[str, Any] | None = None, example_names: Any = None,
        name: str | None = None) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Parse a vector of serialized ``SequenceExample`` messages.

    Args:
        serialized: strings, a message each.
        context_features: key -> :class:`FixedLenFeature` (a tensor ``[batch, *shape]``) or
            :class:`VarLenFeature` (a ``SparseTensor`` of rank 2).
        sequence_features: key -> :class:`FixedLenSequenceFeature` (a tensor ``[batch, most steps,
            *shape]``, filled up with zeros or empty strings) or :class:`VarLenFeature` (a
            ``SparseTensor`` of rank 3: example, step, value).
        example_names: a vector of names, for messages.
        name: name scope.

    Returns:
        Three dicts: of the context, of the sequences, and of the int64 numbers ``[batch]`` of steps
        of the sequences that are tensors.

    Raises as :func:`parse_example`.
    """
    context, lists, may_miss = _sequence_plans(context_features, sequence_features)
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        names = convert_to_tensor([] if example_names is None else example_names, dtypes.string,
                                  name="debug_name")
        found = raw_ops.ParseSequenceExample(
            serialized=serialized, debug_name=names,
            feature_list_dense_missing_assumed_empty=may_miss,
            Ncontext_sparse=len(context.sparse), Ncontext_dense=len(context.dense),
            Nfeature_list_sparse=len(lists.sparse), Nfeature_list_dense=len(lists.dense),
            **_sequence_arguments(context, lists))
        return (*_sequence_results(context, lists, found),
                dict(zip(lists.dense, found[8], strict=True)))


def _sequence_plans(context_features: dict[str, Any] | None,
                    sequence_features: dict[str, Any] | None) -> tuple[_Plan, _Plan, list[str]]:
    """Plans of the context and of the lists, and the lists that may be missing."""
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    lists = _Plan(sequence_features, (VarLenFeature, FixedLenSequenceFeature))
    return (_Plan(context_features, (VarLenFeature, FixedLenFeature)), lists,
            [key for key, feature in lists.dense.items() if feature.allow_missing])


def _sequence_arguments(context: _Plan, lists: _Plan) -> dict[str, Any]:
    return {
        "context_sparse_keys": list(context.sparse), "context_dense_keys": list(context.dense),
        "feature_list_sparse_keys": list(lists.sparse),
        "feature_list_dense_keys": list(lists.dense),
        "context_dense_defaults": context.defaults(),
        "context_sparse_types": list(context.sparse.values()), "Tcontext_dense": context.types(),
        "context_dense_shapes": context.shapes(),
        "feature_list_sparse_types": list(lists.sparse.values()),
        "feature_list_dense_types": lists.types(),
        "feature_list_dense_shapes": [as_shape(f.shape) for f in lists.dense.values()]}


def _sequence_results(context: _Plan, lists: _Plan, found: Any) -> tuple[dict, dict]:
    return (context.results(_sparse_of(*found[:3]), found[3]),
            lists.results(_sparse_of(*found[4:7]), found[7]))
