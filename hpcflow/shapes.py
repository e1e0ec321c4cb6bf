"""Static shapes: `Dimension` and `TensorShape`, either of which may be unknown.

Inside the library use `TensorShape.dims_tuple` (a tuple of int or None, or None when the
rank is unknown): it involves no `Dimension` objects.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.message import Message

Dims = tuple["int | None", ...]
#: One dimension: a whole number, also as a float or a text; a `Dimension`; None where unknown.
DimensionLike: TypeAlias = "SupportsIndex | Dimension | None"
#: What `as_shape` takes, besides None: a shape or its protobuf, dimensions, or the length of a
#: vector.
ShapeLike: TypeAlias = "TensorShape | Iterable[DimensionLike] | SupportsIndex | Message"


def _checked(value: Any) -> int | None:
    """Normalize one dimension given by a user: a non-negative int, or None for unknown."""
    if value is None or value.__class__ is int:
        number = value
    elif isinstance(value, Dimension):
        return value._value
    else:
        number = _whole(value)
    if number is not None and number < 0:
        raise ValueError(f"Dimension {number} must be >= 0")
    return number


def _whole(value: Any) -> int:
    """`value` as an int: also a float without a fraction, which a division gives, and a text."""
    try:
        return operator.index(value)
    except TypeError:
        if not isinstance(value, (Real, str, bytes)):
            raise TypeError(f"a dimension must be an integer or None, got {value!r} of type "
                            f"{type(value).__name__}") from None
    number = int(value)  # type: ignore[arg-type]
    if isinstance(value, Real) and number != value:
        raise ValueError(f"Ambiguous dimension: {value}")
    return number


def _merge_dim(a: int | None, b: int | None) -> int | None:
    """Combine two dimensions that are known to be compatible."""
    return b if a is None else a


class Dimension:
    """The size of one dimension, or unknown (`value` is None).

    Arithmetic and order with an unknown dimension give unknown (`None` for comparisons).
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        """Accepts an int, an object with `__index__`, a Dimension or None."""
        self._value = _checked(value)

    @property
    def value(self) -> int | None:
        """The size, or None if it is unknown."""
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __int__(self) -> Any:
        return self._value  # None where it is called as a method; int() refuses that

    def __index__(self) -> int:
        if self._value is None:
            raise TypeError("an unknown Dimension cannot be used as an integer")
        return self._value

    def __bool__(self) -> bool:
        return self._value is not None and self._value != 0

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Dimension, (self._value,))

    def is_compatible_with(self, other: Any) -> bool:
        """True if the two sizes can be equal: they are, or at least one is unknown."""
        other = _checked(other)
        return self._value is None or other is None or self._value == other

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if `is_compatible_with(other)` is false."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {as_dimension(other)} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """Combine the knowledge of both. Raises ValueError if they are incompatible."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(_merge_dim(self._value, other._value))

    def _operate(self, other: Any, function: Callable[..., Any]) -> Any:
        try:
            if isinstance(other, (str, bytes, float)) and (
                    not isinstance(other, float) or other.is_integer()):
                other = int(other)  # they stand for a size, too
            other = _checked(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other is None:
            return None
        return function(self._value, other)

    def _arithmetic(self, other: Any, function: Callable[..., Any]) -> Any:
        result = self._operate(other, function)
        return result if result is NotImplemented else Dimension(result)

    def __eq__(self, other: object) -> Any:
        """True or False where both are known, else None."""
        return self._operate(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._operate(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._operate(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._operate(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._operate(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._operate(other, operator.ge)

    def __add__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._arithmetic(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.mul)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._arithmetic(other, lambda a, b: b // a)

    def __truediv__(self, other: object) -> Any:
        raise _no_division(self, other)

    def __rtruediv__(self, other: object) -> Any:
        raise _no_division(other, self)

    def __mod__(self, other: Any) -> Any:
        return self._arithmetic(other, operator.mod)

    def __rmod__(self, other: Any) -> Any:
        return self._arithmetic(other, lambda a, b: b % a)


def _no_division(a: object, b: object) -> TypeError:
    return TypeError(f"unsupported operand type(s) for /: '{type(a).__name__}' and "
                     f"'{type(b).__name__}', please use // instead")


def as_dimension(value: Any) -> Dimension:
    """Convert to a Dimension; a Dimension is returned as it is."""
    return value if isinstance(value, Dimension) else Dimension(value)


class TensorShape:
    """The static shape of a tensor: fully known, partly known, or of unknown rank.

    Immutable. `dims_tuple` is the fast view for code inside the library.
    """

    __slots__ = ("_dims",)

    _dims: Dims | None
    _v2_behavior = False  # for programs that ask whether elements are numbers, no Dimensions

    def __init__(self, dims: Any) -> None:
        """From None (unknown rank), a TensorShape, a TensorShapeProto, an integer (a vector)
        or an iterable of ints, Dimensions and None.

        Raises TypeError for a dimension that is no integer, ValueError for a negative one.
        """
        if dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        elif isinstance(dims, (tuple, list)):
            self._dims = tuple([_checked(d) for d in dims])
        elif hasattr(dims, "unknown_rank"):
            self._dims = _dims_of_proto(dims)
        else:
            self._dims = _dims_of_other(dims)

    @classmethod
    def from_dims(cls, dims: Dims | None) -> TensorShape:
        """Wrap an already normalized tuple (or None) without checking it."""
        self = cls.__new__(cls)
        self._dims = dims
        return self

    @property
    def dims_tuple(self) -> Dims | None:
        """A tuple of int or None per dimension, or None if the rank is unknown."""
        return self._dims

    @property
    def dims(self) -> list[Dimension] | None:
        """A list of Dimensions, or None if the rank is unknown."""
        return None if self._dims is None else [Dimension(d) for d in self._dims]

    @property
    def ndims(self) -> int | None:
        """The rank, or None if it is unknown."""
        return None if self._dims is None else len(self._dims)

    rank = ndims

    def num_elements(self) -> int | None:
        """The number of elements, or None if the shape is not fully defined."""
        if self._dims is None:
            return None
        total = 1
        for dim in self._dims:
            if dim is None:
                return None
            total *= dim
        return total

    def as_list(self) -> list[int | None]:
        """A list of int or None. Raises ValueError if the rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def as_proto(self) -> Any:
        """A TensorShapeProto of this shape (unknown dimensions are -1)."""
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

        if self._dims is None:
            return TensorShapeProto(unknown_rank=True)
        sizes = [-1 if d is None else d for d in self._dims]
        return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])

    def is_fully_defined(self) -> bool:
        """True if the rank and every dimension are known."""
        return self._dims is not None and None not in self._dims

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError if `is_fully_defined()` is false."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other: Any) -> bool:
        """True if some fully defined shape matches both."""
        a, b = self._dims, as_shape(other)._dims
        if a is None or b is None:
            return True
        if len(a) != len(b):
            return False
        return all(x == y or x is None or y is None for x, y in zip(a, b))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if `is_compatible_with(other)` is false."""
        other = as_shape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """Combine the knowledge of both. Raises ValueError if they are incompatible."""
        other = as_shape(other)
        a, b = self._dims, other._dims
        if a is None or a == b:
            return other
        if b is None:
            return self
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        return TensorShape.from_dims(tuple([_merge_dim(x, y) for x, y in zip(a, b)]))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the shape that says of each dimension what both shapes agree on."""
        other = as_shape(other)
        a, b = self._dims, other._dims
        if a is None or b is None or len(a) != len(b):
            return TensorShape(None)
        return TensorShape.from_dims(tuple([x if x == y else None for x, y in zip(a, b)]))

    def concatenate(self, other: Any) -> TensorShape:
        """This shape followed by the dimensions of `other`; unknown if either rank is."""
        b = as_shape(other)._dims
        if self._dims is None or b is None:
            return _UNKNOWN
        return TensorShape.from_dims(self._dims + b)

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self._dims is None or other._dims is None:
            return
        if len(self._dims) != len(other._dims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError if the rank is known and is not `rank`."""
        if self._dims is not None and len(self._dims) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank: int) -> TensorShape:
        """This shape with the given rank. Raises ValueError if it has another one."""
        if self._dims is None:
            return unknown_shape(rank)
        self.assert_has_rank(rank)
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """This shape. Raises ValueError if its rank is known and smaller than `rank`."""
        if self._dims is not None and len(self._dims) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """This shape. Raises ValueError if its rank is known and larger than `rank`."""
        if self._dims is not None and len(self._dims) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of a shape with unknown rank")
        return len(self._dims)

    def __bool__(self) -> bool:
        """True if the rank is known."""
        return self._dims is not None

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("cannot iterate over a shape of unknown rank")
        return iter([Dimension(d) for d in self._dims])

    def __getitem__(self, key: Any) -> Any:
        """A Dimension for an index, a TensorShape for a slice.

        Of a shape of unknown rank everything is unknown; a slice with fixed bounds still
        has a known length.
        """
        if isinstance(key, slice):
            return self._slice(key)
        return Dimension(None if self._dims is None else self._dims[key])

    def _slice(self, key: slice) -> TensorShape:
        if self._dims is not None:
            return TensorShape.from_dims(self._dims[key])
        start = 0 if key.start is None else operator.index(key.start)
        stop = None if key.stop is None else operator.index(key.stop)
        if stop is None or start < 0 or stop < 0 or key.step is not None:
            return _UNKNOWN
        return unknown_shape(max(stop - start, 0))

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    def __eq__(self, other: object) -> Any:
        """True if both are the same shape, unknown parts included (unknown equals unknown)."""
        if other.__class__ is TensorShape:
            return self._dims == other._dims
        try:
            return self._dims == as_shape(other)._dims
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TensorShape, (self.dims,))

    def __repr__(self) -> str:
        return f"TensorShape({self.dims})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        inner = ", ".join(["?" if d is None else str(d) for d in self._dims])
        return f"({inner},)" if len(self._dims) == 1 else f"({inner})"


def _dims_of_proto(proto: Message) -> Dims | None:
    if proto.unknown_rank:
        return None
    return tuple([None if dim.size == -1 else _checked(dim.size) for dim in proto.dim])


def _dims_of_other(dims: Any) -> Dims:
    """The dimensions of an iterable that is no list or tuple, or of a single integer."""
    if isinstance(dims, (str, bytes)):
        raise TypeError("A string has ambiguous TensorShape, please wrap in a list or convert to "
                        f"an int: {dims!r}")
    if isinstance(dims, Iterable) and getattr(dims, "ndim", 1) != 0:
        return tuple([_checked(d) for d in dims])
    return (_checked(dims),)


_UNKNOWN = TensorShape.from_dims(None)
_SCALAR = TensorShape.from_dims(())


def dimension_value(dimension: Any) -> int | None:
    """Return the size that a :class:`Dimension` (or a number) is; None if it is unknown."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Return the :class:`Dimension` of `shape` at `index`; unknown if the rank is."""
    dims = shape.dims
    return Dimension(None) if dims is None else dims[index]


def as_shape(value: Any) -> TensorShape:
    """Convert to a TensorShape; a TensorShape is returned as it is."""
    return value if value.__class__ is TensorShape else TensorShape(value)


def unknown_shape(ndims: int | None = None, rank: int | None = None) -> TensorShape:
    """A shape of unknown rank, or of `ndims` (or `rank`, its later name) unknown dimensions."""
    ndims = rank if ndims is None else ndims
    return _UNKNOWN if ndims is None else TensorShape.from_dims((None,) * ndims)


def scalar() -> TensorShape:
    """The shape of a scalar."""
    return _SCALAR


def vector(length: Any) -> TensorShape:
    """The shape of a vector."""
    return TensorShape((length,))


def matrix(rows: Any, cols: Any) -> TensorShape:
    """The shape of a matrix."""
    return TensorShape((rows, cols))


def format_shape(shape: ShapeLike) -> str:
    """A compact form for messages: `[64,784]`, `[?,10]`, `[]` or `<unknown>`.

    Accepts whatever `as_shape` accepts.
    """
    dims = as_shape(shape)._dims
    if dims is None:
        return "<unknown>"
    return "[" + ",".join(["?" if d is None else str(d) for d in dims]) + "]"


def is_broadcast_compatible(shape_x: TensorShape, shape_y: TensorShape) -> bool:
    """Return whether some shape is known to be that of both, broadcast to each other."""
    a, b = shape_x._dims, shape_y._dims
    if a is None or b is None:
        return False
    return all(x is None or y is None or 1 in (x, y) or x == y for x, y in zip(a[::-1], b[::-1]))
