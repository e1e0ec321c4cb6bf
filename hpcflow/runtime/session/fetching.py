"""Fetches and feeds: from what the user passes to flat lists, and back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from hpcflow.dtypes import DType, string
from hpcflow.graph.graph import Graph
from hpcflow.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.sparse_tensor import SparseTensor, SparseTensorValue
from hpcflow.resources.handles import Handle
from hpcflow.runtime.session.session_tensors import TensorHandle, handle_result

Rebuild = Callable[[list], Any]

# type -> (fetch expansion, feed expansion, tensors of a feed); for composites such as SparseTensor
_composites: list[tuple[type, Callable, Callable | None, Callable | None]] = []


def register_session_run_conversion_functions(
        tensor_type: type, fetch_function: Callable, feed_function: Callable | None = None,
        feed_function_for_partial_run: Callable | None = None) -> None:
    """Teach all sessions to fetch and feed objects of a class that stand for tensors.

    Args:
        tensor_type: the class; objects of classes derived from it are meant too.
        fetch_function: ``f(object)`` gives a list of tensors, and a function from the list of their
            values to the result of the fetch.
        feed_function: ``f(object, value)`` gives a list of pairs (tensor, value of that tensor).
            Without it such objects cannot be fed.
        feed_function_for_partial_run: ``f(object)`` gives the tensors that a feed of it feeds.

    Raises:
        ValueError: functions were registered for this class, or one that it derives from.
    """
    for kind, *_ in _composites:
        if issubclass(tensor_type, kind):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")
    # A class goes before those that it derives from.
    _composites.insert(0, (tensor_type, fetch_function, feed_function,
                           feed_function_for_partial_run))


def _fetch_slices(value: IndexedSlices) -> tuple[list, Rebuild]:
    parts = [value.values, value.indices]
    if value.dense_shape is None:
        return parts, lambda v: IndexedSlicesValue(v[0], v[1], None)
    return [*parts, value.dense_shape], lambda v: IndexedSlicesValue(*v)


def _feed_slices(key: IndexedSlices, value: Sequence[Any]) -> list[tuple[Any, Any]]:
    pairs = [(key.values, value[0]), (key.indices, value[1])]
    return pairs if key.dense_shape is None else [*pairs, (key.dense_shape, value[2])]


def _fetch_sparse(value: SparseTensor) -> tuple[list, Rebuild]:
    return [value.indices, value.values, value.dense_shape], lambda v: SparseTensorValue(*v)


def _feed_sparse(key: SparseTensor, value: SparseTensorValue) -> list[tuple[Any, Any]]:
    try:
        parts = [value[0], value[1], *value[2:3]]
    except (TypeError, IndexError):
        raise TypeError("A SparseTensor is fed by a SparseTensorValue, or by a tuple (indices, "
                        f"values, dense_shape), not by {_short(value)}") from None
    return list(zip([key.indices, key.values, key.dense_shape], parts))


register_session_run_conversion_functions(
    IndexedSlices, _fetch_slices, _feed_slices, lambda key: _fetch_slices(key)[0])
register_session_run_conversion_functions(
    SparseTensor, _fetch_sparse, _feed_sparse, lambda key: _fetch_sparse(key)[0])


class FetchMap:
    """The structure of one ``fetches`` argument.

    ``elements`` are the distinct tensors and operations; ``rebuild(values)`` gives the result in
    the structure of the argument, where `values` has one entry per element (None for operations).
    ``is_single`` tells that there is one element and no structure.
    """

    def __init__(self, fetches: Any, graph: Graph, session: SessionLike | None = None) -> None:
        self.graph = graph
        self._session = session
        self.elements: list[Tensor | Operation] = []
        self._positions: dict[Any, int] = {}
        found = self._map(fetches)
        self.is_single = isinstance(found, int)
        self.rebuild: Rebuild = _pick(found) if isinstance(found, int) else found

    def _map(self, fetch: Any) -> Rebuild | int:
        """Return how to rebuild `fetch`: a function of the values, or the position of an
        element."""
        if fetch is None:
            raise TypeError("Fetch argument None has invalid type <class 'NoneType'>. Cannot be "
                            "None")
        if isinstance(fetch, (list, tuple)):
            return self._map_sequence(fetch)
        if isinstance(fetch, Mapping):
            return _mapping_of(fetch, self._maps(fetch.values()))
        if _is_attrs(fetch):
            parts, kind = self._maps(_fields_of(fetch)), type(fetch)
            return lambda values: kind(*parts(values))
        for kind, expand, *_ in _composites:
            if isinstance(fetch, kind):
                tensors, rebuild = expand(fetch)
                parts = self._maps(tensors)
                return lambda values: rebuild(parts(values))
        return self._map_element(fetch)

    def _maps(self, fetches: Iterable[Any]) -> Rebuild:
        """The function that gives the list of the rebuilt `fetches`."""
        parts = [self._map(f) for f in fetches]
        if all(isinstance(p, int) for p in parts):
            if parts == list(range(len(parts))):
                return lambda values: list(values[: len(parts)])
            positions: list[Any] = parts
            return lambda values: [values[p] for p in positions]
        builders = [_pick(p) if isinstance(p, int) else p for p in parts]
        return lambda values: [build(values) for build in builders]

    def _map_sequence(self, fetch: Any) -> Rebuild:
        parts, kind = self._maps(fetch), type(fetch)
        if hasattr(fetch, "_fields"):  # a namedtuple
            return lambda values: kind(*parts(values))
        if isinstance(fetch, tuple):
            return lambda values: tuple(parts(values))
        return parts

    def _map_element(self, fetch: Any) -> Rebuild | int:
        """Return the position of a fetched element; operations have one too, and their value is
        None."""
        element = self._element(fetch)
        if not self.graph.is_fetchable(element):
            op = element if isinstance(element, Operation) else element.op
            raise ValueError(f"Operation {op.name!r} has been marked as not fetchable.")
        position = self._positions.get(element)
        if position is None:
            position = self._positions[element] = len(self.elements)
            self.elements.append(element)
        if isinstance(element, Tensor) and element.op.type == "GetSessionHandle":
            session = self._session
            return lambda values: handle_result(session, element, values[position])
        if isinstance(element, Tensor) and element.dtype.base_dtype is string:
            return lambda values: _strings(values[position])
        return position

    def _element(self, fetch: Any) -> Any:
        try:
            return self.graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as e:
            raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch)}, must be a "
                            f"string or Tensor. ({e})") from None
        except ValueError as e:
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({e})"
                             ) from None
        except KeyError as e:
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({e})"
                             ) from None


def _is_attrs(value: Any) -> bool:
    """True if `value` is an object of a class made by ``attr.s``, a structure of its fields."""
    return hasattr(type(value), "__attrs_attrs__")


def _fields_of(value: Any) -> list:
    return [getattr(value, field.name) for field in type(value).__attrs_attrs__]


def _strings(value: np.ndarray | bytes) -> Any:
    """Strings as they are; a handle of an old version as the strings that name its resource."""
    return value.strings() if isinstance(value, Handle) else value


def _pick(position: int) -> Rebuild:
    return lambda values: values[position]


def _mapping_of(fetch: Mapping, parts: Rebuild) -> Rebuild:
    """Results in a mapping like `fetch`: of the same type, with the keys in the same order."""
    keys = list(fetch)
    if type(fetch) is dict or not isinstance(fetch, MutableMapping):
        return lambda values: dict(zip(keys, parts(values), strict=True))
    # A copy of the mapping keeps what its type needs besides the items (a default, say).
    template = copy.copy(fetch)

    def rebuild(values: list) -> Any:
        result: Any = copy.copy(template)
        for key, value in zip(keys, parts(values), strict=True):
            result[key] = value
        return result

    return rebuild


def cache_key(fetches: Any) -> Any:
    """A value that is equal for equal structures of the same elements, and can be hashed."""
    kind = type(fetches)
    if kind is Tensor or kind is Operation or kind is str:
        return fetches
    if kind is list:
        return (list, *[f if type(f) is Tensor else cache_key(f) for f in fetches])
    if isinstance(fetches, (list, tuple)):
        return (kind, *[cache_key(f) for f in fetches])
    if isinstance(fetches, Mapping):
        return (kind, *fetches, *[cache_key(f) for f in fetches.values()])
    if _is_attrs(fetches):
        return (kind, *[cache_key(f) for f in _fields_of(fetches)])
    return fetches


def flat_feeds(feed_dict: Mapping, graph: Graph) -> list[tuple[Tensor, Any]]:
    """The fed tensors with their values; raises ``TypeError`` for what cannot be a feed."""
    pairs: list[tuple[Tensor, Any]] = []
    for key, value in feed_dict.items():
        pairs.extend(_expand_feed(key, value, graph))
    return pairs


def _expand_feed(key: Tensor | str, value: TensorLike, graph: Graph) -> list[tuple[Tensor, Any]]:
    """A tuple of keys, perhaps nested, is fed by values in the same structure."""
    if isinstance(key, tuple):
        if not isinstance(value, (tuple, list)) or len(key) != len(value):
            raise ValueError(f"The feed_dict key {key!r} needs {len(key)} values in the same "
                             f"nesting, not {_short(value)}")
        return [pair for k, v in zip(key, value) for pair in _expand_feed(k, v, graph)]
    for kind, _, expand, _ in _composites:
        if isinstance(key, kind) and expand is not None:
            return [(_feed_tensor(k, graph), v) for k, v in expand(key, value)]
    return [(_feed_tensor(key, graph), value)]


def fed_tensors(key: Any, graph: Graph) -> list[Tensor]:
    """The tensors that a feed of `key` feeds."""
    for kind, _, _, tensors in _composites:
        if isinstance(key, kind) and tensors is not None:
            return [_feed_tensor(t, graph) for t in tensors(key)]
    return [_feed_tensor(key, graph)]


def _feed_tensor(key: Tensor | str | Operation, graph: Graph) -> Tensor:
    try:
        tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except (TypeError, ValueError, KeyError) as e:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {e}") from None
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor} may not be fed.")
    return tensor


def feed_converter(tensor: Tensor) -> Callable[[Any], Any]:
    """The function that turns a fed value into one of the tensor's dtype, checked against its
    static shape (``ValueError``) and type (``TypeError``).

    An array of the right dtype is passed on as it is; rank 0 becomes a NumPy scalar.
    """
    dtype = tensor.dtype.base_dtype
    if dtype.name in ("string", "resource", "variant"):
        return _object_converter(tensor, dtype)
    if tensor._dims == ():
        return _number_converter(tensor, dtype)
    np_dtype, dims, ndarray = dtype.np, tensor._dims, np.ndarray

    def convert(value: TensorLike) -> Any:
        if type(value) is ndarray and value.dtype is np_dtype and value.shape == dims:
            return value
        array = _checked(tensor, dims, _as_array(tensor, dtype, value))
        return array if array.ndim else array[()]

    return convert


def _number_converter(tensor: Tensor, dtype: DType) -> Callable[[Any], Any]:
    scalar_type, takes_float = dtype.np.type, dtype.is_floating

    def convert(value: TensorLike) -> Any:
        kind = type(value)
        if kind is scalar_type:
            return value
        if kind is float and takes_float:
            return scalar_type(value)
        return _checked(tensor, (), _as_array(tensor, dtype, value))[()]

    return convert


def _object_converter(tensor: Tensor, dtype: DType) -> Callable[[Any], Any]:
    from hpcflow.graph.tensor_proto import numpy_value

    def convert(value: np.ndarray | str | Sequence[Any]) -> Any:
        if dtype.name != "string":
            return value
        if isinstance(value, int):
            raise TypeError(f"Type of feed value {value} with type {type(value)} is not compatible "
                            f"with Tensor type string of '{tensor.name}'")
        array = _checked(tensor, tensor._dims, numpy_value(value, dtype))
        return array if array.ndim else array[()]

    return convert


def _as_array(tensor: Tensor, dtype: DType, value: TensorLike) -> np.ndarray:
    if isinstance(value, Tensor):
        raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values "
                        "include Python scalars, strings, lists, or numpy ndarrays. "
                        f"(feed of '{tensor.name}')")
    if type(value) is int and dtype.is_integer and not dtype.min <= value <= dtype.max:
        raise TypeError(f"Type of feed value {value} with type {type(value)} is not compatible "
                        f"with Tensor type {dtype.name} of '{tensor.name}': its range is "
                        f"{dtype.min} to {dtype.max}")
    if isinstance(value, TensorHandle):  # a tensor that a session keeps: its value
        value = value.eval()
    try:
        return np.asarray(value, dtype=dtype.np)
    except (ValueError, TypeError, OverflowError) as e:
        raise ValueError(f"Cannot feed {_short(value)} for Tensor '{tensor.name}' of type "
                         f"{dtype.name}: {e}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _checked(tensor: Tensor, dims: tuple | None, value: np.ndarray) -> Any:
    if dims is not None and (len(dims) != value.ndim or any(
            d is not None and d != n for d, n in zip(dims, value.shape, strict=True))):
        raise ValueError(f"Cannot feed value of shape {value.shape} for Tensor '{tensor.name}', "
                         f"which has shape '{tensor.shape}'")
    return value


