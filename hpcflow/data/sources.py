"""Data sets of tensors, numbers, generators and names of files, and of data sets side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data import nest
from hpcflow.data.functions import ElementFunction
from hpcflow.data.structure import (
    AnyDataset,
    Leaf,
    SparseLeaf,
    Structure,
    as_tensors,
    dataset_of,
)
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.flow.py_func import py_func
from hpcflow.shapes import ShapeLike, TensorShape


def _made(variant: Tensor, structure: Structure) -> Any:
    return dataset_of(variant, structure)


def _component_attrs(structure: Structure) -> dict[str, Any]:
    return {"output_shapes": [TensorShape(d) for d in structure.graph_dims]}


def from_tensors(tensors: Nest) -> Any:
    """See ``Dataset.from_tensors``."""
    values = as_tensors(tensors)
    structure = Structure.of_values(values)
    variant = raw_ops.TensorDataset(components=structure.to_tensors(values),
                                    **_component_attrs(structure))
    return _made(variant, structure)


def from_tensor_slices(tensors: Nest) -> Any:
    """See ``Dataset.from_tensor_slices``."""
    values = as_tensors(tensors)
    whole = Structure.of_values(values)
    first = None
    for leaf in whole.leaves:
        dims = leaf.shape.with_rank_at_least(1)
        if dims.ndims is not None:
            first = dims[0] if first is None else first.merge_with(dims[0])
    structure = whole.map_shapes(lambda s: s[1:] if s.ndims is not None else s)
    parts = [raw_ops.SerializeManySparse(v.indices, v.values, v.dense_shape)
             if isinstance(leaf, SparseLeaf) else leaf.to_tensor(v)
             for leaf, v in zip(whole.leaves, nest.flatten(values), strict=True)]
    variant = raw_ops.TensorSliceDataset(components=parts, **_component_attrs(structure))
    return _made(variant, structure)


def from_sparse_tensor_slices(sparse: Any) -> Any:
    """See ``Dataset.from_sparse_tensor_slices``."""
    if not isinstance(sparse, SparseTensor):
        raise TypeError(f"`sparse_tensor` must be a `tf.SparseTensor` object. Was {sparse}.")
    variant = raw_ops.SparseTensorSliceDataset(
        indices=sparse.indices, values=sparse.values, dense_shape=sparse.dense_shape)
    rank = sparse.get_shape().ndims
    rest = None if rank is None else rank - 1
    structure = Structure((Leaf(dtypes.int64, TensorShape([None, rest])),
                           Leaf(sparse.dtype, TensorShape([None])),
                           Leaf(dtypes.int64, TensorShape([rest]))))
    return _made(variant, structure)


def number_range(*args: Any) -> Any:
    """See ``Dataset.range``."""
    if not 1 <= len(args) <= 3:
        raise ValueError(f"Invalid arguments to RangeDataset: {args}")
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    structure = Structure(Leaf(dtypes.int64, TensorShape([])))
    variant = raw_ops.RangeDataset(
        start=convert_to_tensor(start, dtypes.int64, "start"),
        stop=convert_to_tensor(stop, dtypes.int64, "stop"),
        step=convert_to_tensor(step, dtypes.int64, "step"), **structure.attrs)
    return _made(variant, structure)


def zipped(datasets: Any) -> Any:
    """See ``Dataset.zip``."""
    parts = nest.flatten(datasets)
    for part in parts:
        if isinstance(part, list):
            raise TypeError("The argument to `Dataset.zip()` must be a nested structure of "
                            "`Dataset` objects. Nested structures do not support Python lists; "
                            "please use a tuple instead.")
        if not isinstance(part, AnyDataset):
            raise TypeError("The argument to `Dataset.zip()` must be a nested structure of "
                            f"`Dataset` objects, but has {part!r}.")
    structure = Structure(nest.pack_as(datasets, [_Tree(p._structure.tree) for p in parts]))
    structure = Structure(_unwrapped(structure.tree))
    variant = raw_ops.ZipDataset(input_datasets=[p._variant_tensor for p in parts],
                                 **structure.attrs)
    return _made(variant, structure)


class _Tree:
    """A nest that is to be a leaf for a while."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree


def _unwrapped(tree: Any) -> Any:
    """Replace each leaf that holds a nest by that nest."""
    if isinstance(tree, _Tree):
        return tree.tree
    if isinstance(tree, dict):
        return type(tree)((k, _unwrapped(v)) for k, v in tree.items())
    items = [_unwrapped(item) for item in tree]
    return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)


# ---------------------------------------------------------------- generators


class _Generators:
    """The running iterators of one generator, by number."""

    def __init__(self, generator: Callable) -> None:
        self._generator = generator
        self._lock = threading.Lock()
        self._open: dict[int, Any] = {}
        self._next = 0

    def begin(self, *args: Any) -> np.int64:
        """Start a new iterator and return its number."""
        iterator = iter(self._generator(*args))
        with self._lock:
            self._next += 1
            self._open[self._next] = iterator
            return np.int64(self._next)

    def advance(self, number: Any) -> Any:
        """Return the next value of an open generator; raise ``StopIteration`` at its end."""
        return next(self._open[int(number)])

    def end(self, number: Any) -> np.int64:
        """Drop an iterator."""
        with self._lock:
            self._open.pop(int(number), None)
        return np.int64(0)


def from_generator(generator: Callable, output_types: Any, output_shapes: ShapeLike,
                   args: tuple | None) -> Any:
    """See ``Dataset.from_generator``."""
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    structure = Structure.of_parts(output_types, output_shapes)
    inputs = tuple(convert_to_tensor(a, name=f"args_{i}") for i, a in enumerate(args or ()))
    open_ones = _Generators(generator)
    number = Structure(Leaf(dtypes.int64, TensorShape([])))

    def convert(number: TensorLike) -> list:
        return _converted(open_ones.advance(number), structure)

    def begin(*values: Any) -> Tensor:
        result = py_func(open_ones.begin, list(values), dtypes.int64)
        result.set_shape([])
        return result

    def following(number: Tensor) -> Any:
        values = py_func(convert, [number], structure.graph_types)
        return structure.from_tensors(values)

    functions = {
        "init": ElementFunction(lambda: begin(*inputs), [], "generator_init"),
        "next": ElementFunction(following, [number], "generator_next"),
        "finalize": ElementFunction(lambda n: py_func(open_ones.end, [n], dtypes.int64), [number],
                                    "generator_end")}
    keywords: dict[str, Any] = {}
    for name, function in functions.items():
        keywords |= {f"{name}_func": function.func,
                     f"{name}_func_other_args": function.captured}
    return _made(raw_ops.GeneratorDataset(**keywords, **structure.attrs), structure)


def _converted(values: int | str | Sequence[Any], structure: Structure) -> list:
    """Convert a value that a generator yielded to arrays of the types of `structure`.

    Raises ``TypeError`` and ``ValueError``, which become an ``InvalidArgumentError``.
    """
    try:
        flat = nest.flatten_up_to(structure.tree, values)
    except (TypeError, ValueError):
        raise TypeError("`generator` yielded an element that did not match the expected structure. "
                        f"The expected structure was {structure.types}, but the yielded element "
                        f"was {values}.") from None
    result = []
    for leaf, value in zip(structure.leaves, flat, strict=True):
        array = _array(leaf, value)
        if not leaf.shape.is_compatible_with(array.shape):
            raise ValueError("`generator` yielded an element of shape "
                             f"{array.shape} where an element of shape {leaf.shape} was expected.")
        result.append(array)
    return result


def _array(leaf: Leaf, value: Any) -> np.ndarray:
    try:
        if leaf.dtype is dtypes.string:
            return np.asarray(value, object)
        array = np.asarray(value)
        if array.dtype != leaf.dtype.np:
            if array.size and not _fits(array, leaf.dtype):
                raise TypeError
            array = array.astype(leaf.dtype.np)
        return array
    except (TypeError, ValueError):
        raise TypeError("`generator` yielded an element that could not be converted to the "
                        f"expected type. The expected type was {leaf.dtype.name}, but the yielded "
                        f"element was {value}.") from None


def _fits(array: np.ndarray, dtype: DType) -> bool:
    """True if an array is of the kind of a type, or has whole numbers that are all in its range."""
    if np.can_cast(array.dtype, dtype.np, "same_kind"):
        return True
    return (array.dtype.kind in "iu" and dtype.is_integer
            and dtype.min <= array.min() and array.max() <= dtype.max)


# ---------------------------------------------------------------- files


def list_files(pattern: TensorLike, shuffle: bool | None, seed: int | None) -> Any:
    """See ``Dataset.list_files``."""
    from hpcflow.ops.flow.checks import Assert

    patterns = convert_to_tensor(pattern, dtypes.string, "file_pattern")
    names = raw_ops.MatchingFiles(pattern=patterns)
    some = raw_ops.Greater(raw_ops.Size(names), 0)
    message = raw_ops.Add("No files matched pattern: ", raw_ops.ReduceJoin(
        raw_ops.Reshape(patterns, [-1]), 0, separator=", "))
    with control_dependencies([Assert(some, [message], summarize=1)]):
        names = raw_ops.Identity(names)
    dataset = from_tensor_slices(names)
    if shuffle is None or shuffle:
        size = raw_ops.Maximum(raw_ops.Size(names, out_type=dtypes.int64),
                               np.int64(1))
        dataset = dataset.shuffle(size, seed=seed)
    return dataset
