"""Element types of tensors: `DType`, its interned constants and conversion to it.

Numbers are those of the `DataType` enumeration of the GraphDef format; a reference
type (the output of a variable op) has the number of its base type plus 100.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from hpcflow.base.late_names import named_otherwise

_Bool = builtins.bool  # the module defines a DType called `bool`
_REF_OFFSET = 100

# name, enum, numpy scalar type (None: resolved on first use), kind
_SPECS: tuple[tuple[str, int, Any, str], ...] = (
    ("float32", 1, np.float32, "f"),
    ("float64", 2, np.float64, "f"),
    ("int32", 3, np.int32, "i"),
    ("uint8", 4, np.uint8, "u"),
    ("int16", 5, np.int16, "i"),
    ("int8", 6, np.int8, "i"),
    ("string", 7, np.object_, "s"),
    ("complex64", 8, np.complex64, "c"),
    ("int64", 9, np.int64, "i"),
    ("bool", 10, np.bool_, "b"),
    ("qint8", 11, np.int8, "q"),
    ("quint8", 12, np.uint8, "q"),
    ("qint32", 13, np.int32, "q"),
    ("bfloat16", 14, None, "f"),
    ("qint16", 15, np.int16, "q"),
    ("quint16", 16, np.uint16, "q"),
    ("uint16", 17, np.uint16, "u"),
    ("complex128", 18, np.complex128, "c"),
    ("float16", 19, np.float16, "f"),
    ("resource", 20, np.object_, "o"),
    ("variant", 21, np.object_, "o"),
    ("uint32", 22, np.uint32, "u"),
    ("uint64", 23, np.uint64, "u"),
)
_SPEC_OF_ENUM = {spec[1]: spec for spec in _SPECS}
_INTERNED: dict[int, DType] = {}
_BFLOAT16_MAX = float.fromhex("0x1.FEp127")
_LIMITED = frozenset(
    ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
)


class DType:
    """The element type of a tensor.

    Instances are interned: there is exactly one per number, so `is` compares them.
    `==` also accepts whatever `as_dtype` accepts (`x.dtype == "float32"`, `== np.int32`).

    Plain attributes, set once and cheap to read: `enum` (the DataType number), `name`,
    `np` (the numpy dtype object; quantized types use the integers of the same width,
    strings, resources and variants use object), `base_dtype` (the non-reference form),
    `size` (bytes of an element, 0 for strings, resources and variants), and the `is_*`
    predicates.
    """

    __slots__ = (
        "__weakref__",
        "_is_ref_dtype",
        "base_dtype",
        "enum",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_numpy_compatible",
        "is_quantized",
        "is_unsigned",
        "name",
        "np",
        "size",
    )

    enum: int
    name: str
    np: np.dtype[Any]
    size: int
    base_dtype: DType
    is_floating: _Bool
    is_integer: _Bool
    is_complex: _Bool
    is_bool: _Bool
    is_unsigned: _Bool
    is_quantized: _Bool
    is_numpy_compatible: _Bool
    _is_ref_dtype: _Bool

    def __new__(cls, type_enum: int) -> DType:
        """Return the DType of a DataType number. Raises TypeError if there is none."""
        number = int(type_enum)
        found = _INTERNED.get(number)
        if found is not None:
            return found
        is_ref = number > _REF_OFFSET
        spec = _SPEC_OF_ENUM.get(number - _REF_OFFSET if is_ref else number)
        if spec is None:
            raise TypeError(f"{type_enum} is not the number of a supported DataType")
        self = super().__new__(cls)
        self._fill(spec, is_ref)
        return _INTERNED.setdefault(number, self)

    def __init__(self, type_enum: int) -> None:
        """There is one instance per number: see :meth:`__new__`."""

    def _fill(self, spec: tuple[str, int, Any, str], is_ref: _Bool) -> None:
        name, number, scalar, kind = spec
        self.enum = number + _REF_OFFSET if is_ref else number
        self.name = name + "_ref" if is_ref else name
        self._is_ref_dtype = is_ref
        self.base_dtype = DType(number) if is_ref else self
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_unsigned = kind == "u"
        self.is_complex = kind == "c"
        self.is_bool = kind == "b"
        self.is_quantized = kind == "q"
        self.is_numpy_compatible = kind != "o"
        if scalar is None:
            self.size = 2  # `np` stays unset: __getattr__ imports bfloat16 when it is needed
        else:
            self.np = np.dtype(scalar)
            self.size = 0 if kind in "so" else self.np.itemsize

    def __getattr__(self, attribute: str) -> Any:
        if attribute != "np":
            raise AttributeError(f"DType has no attribute {attribute!r}")
        import ml_dtypes

        self.np = np.dtype(ml_dtypes.bfloat16)
        return self.np

    @property
    def as_datatype_enum(self) -> int:
        """The number in the DataType enumeration."""
        return self.enum

    @property
    def as_numpy_dtype(self) -> type:
        """The numpy scalar type, e.g. `numpy.float32`; `numpy.object_` for strings."""
        return self.np.type

    @property
    def real_dtype(self) -> DType:
        """The type of the real part: float32 for complex64, float64 for complex128."""
        return _REAL_OF_COMPLEX.get(self.enum % _REF_OFFSET, self)

    @property
    def min(self) -> Any:
        """The smallest finite value. Raises TypeError for types without an order."""
        return self._extreme("minimum", "min")

    @property
    def max(self) -> Any:
        """The largest finite value. Raises TypeError for types without an order."""
        return self._extreme("maximum", "max")

    def _extreme(self, word: str, field: str) -> Any:
        if self.base_dtype.name == "bfloat16":
            return -_BFLOAT16_MAX if field == "min" else _BFLOAT16_MAX
        if self.is_floating:
            return getattr(np.finfo(self.np), field)
        if self.is_integer:
            return getattr(np.iinfo(self.np), field)
        if self.is_bool:
            return field == "max"
        raise TypeError(f"there is no {word} value of {self!r}")

    @property
    def limits(self) -> tuple[Any, Any]:
        """The intensity range `(0, max)` used for images: 1 for floats, the maximum for integers.

        Raises ValueError for types that have none.
        """
        name = self.base_dtype.name
        if name in ("float32", "float64"):
            return (0, 1)
        if name in _LIMITED:
            return (0, self.max)
        raise ValueError(f"{self!r} does not have defined limits")

    @property
    def _as_ref(self) -> DType:
        """The reference form of this type."""
        return self if self._is_ref_dtype else DType(self.enum + _REF_OFFSET)

    def is_compatible_with(self, other: DType) -> _Bool:
        """True if a value of type `other` may be used where this type is expected.

        A reference is accepted for its base type, not the other way round.
        """
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other: object) -> _Bool:
        if self is other:
            return True
        if other is None or other.__class__ is DType or other is int:
            return False  # Python's int has no element type of its own
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __ne__(self, other: object) -> _Bool:
        return not self == other

    def __hash__(self) -> int:
        return self.enum

    def __int__(self) -> int:
        return self.enum

    def __reduce__(self) -> tuple[Any, ...]:
        return (DType, (self.enum,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Mapping[str, Any]) -> DType:
        return self

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        return f"tf.{self.name}"


#: What `as_dtype` takes: a DType or its number, a name, a numpy dtype, a type of numpy or Python.
DTypeLike: TypeAlias = DType | np.dtype[Any] | type | str | int | np.integer[Any]

float32 = DType(1)
float64 = DType(2)
int32 = DType(3)
uint8 = DType(4)
int16 = DType(5)
int8 = DType(6)
string = DType(7)
complex64 = DType(8)
int64 = DType(9)
bool = DType(10)
qint8 = DType(11)
quint8 = DType(12)
qint32 = DType(13)
bfloat16 = DType(14)
qint16 = DType(15)
quint16 = DType(16)
uint16 = DType(17)
complex128 = DType(18)
float16 = DType(19)
resource = DType(20)
variant = DType(21)
uint32 = DType(22)
uint64 = DType(23)
half = float16
double = float64

float32_ref = DType(101)
float64_ref = DType(102)
int32_ref = DType(103)
uint8_ref = DType(104)
int16_ref = DType(105)
int8_ref = DType(106)
string_ref = DType(107)
complex64_ref = DType(108)
int64_ref = DType(109)
bool_ref = DType(110)
qint8_ref = DType(111)
quint8_ref = DType(112)
qint32_ref = DType(113)
bfloat16_ref = DType(114)
qint16_ref = DType(115)
quint16_ref = DType(116)
uint16_ref = DType(117)
complex128_ref = DType(118)
float16_ref = DType(119)
resource_ref = DType(120)
variant_ref = DType(121)
uint32_ref = DType(122)
uint64_ref = DType(123)
half_ref = float16_ref
double_ref = float64_ref

#: Every non-reference type.
VALUE_DTYPES: frozenset[DType] = frozenset(DType(spec[1]) for spec in _SPECS)
#: The quantized types and their reference forms.
QUANTIZED_DTYPES: frozenset[DType] = frozenset(
    form for dtype in VALUE_DTYPES if dtype.is_quantized for form in (dtype, dtype._as_ref)
)

_REAL_OF_COMPLEX = {8: float32, 18: float64}

_PYTHON_TYPES: dict[type, DType] = {
    float: float32,  # as Python literals convert
    int: int32,
    builtins.bool: bool,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}


_C_NAMES = {float32: "float", float64: "double", float16: "half"}


def c_name(dtype: DType) -> str:
    """The name that messages about values use: C's names of the floating types."""
    return _C_NAMES.get(dtype.base_dtype, dtype.name)


def _known_names() -> dict[str, DType]:
    names = {dtype.name: dtype for dtype in _INTERNED.values()}
    for target, alias in _C_NAMES.items():
        names[alias] = target
        names[alias + "_ref"] = target._as_ref
    return names


_BY_NAME = _known_names()

# qint types share numpy integers with the plain ones, so only the plain ones are found here.
_BY_NUMPY: dict[np.dtype[Any], DType] = {
    dtype.np: dtype
    for dtype in VALUE_DTYPES
    if dtype.is_numpy_compatible and not dtype.is_quantized and dtype is not bfloat16
}
# Only types and numpy dtypes are keys: their meaning never changes.
_CACHE: dict[Any, DType] = {
    **_PYTHON_TYPES,
    **_BY_NUMPY,
    **{dtype.np.type: dtype for dtype in _BY_NUMPY.values()},
}


def as_dtype(type_value: Any) -> DType:
    """Convert to a DType.

    Accepts a DType, a DataType number, a name ('float32', 'double', 'int32_ref', also a
    numpy type string), a numpy dtype or scalar type, and the Python types float (float32),
    int (int32), bool, complex (complex128), str, bytes and object (string).
    Raises TypeError for everything else.
    """
    if type_value.__class__ is DType:
        return type_value
    if isinstance(type_value, str):
        found = _BY_NAME.get(type_value)
    elif isinstance(type_value, (int, np.integer)) and not isinstance(type_value, builtins.bool):
        return DType(int(type_value))
    else:
        found = _cached(type_value)
    if found is None:
        found = _from_numpy_like(type_value)
    if found is None:
        raise TypeError(f"Cannot convert value {type_value!r} to a DType.")
    return found


def _cached(value: Any) -> DType | None:
    try:
        return _CACHE.get(value)
    except TypeError:  # unhashable
        return None


def _from_numpy_like(value: Any) -> DType | None:
    """Find the DType of whatever `numpy.dtype` understands, None included not."""
    if value is None:
        return None  # numpy would read it as float64
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):
        return None
    found = _BY_NUMPY.get(dtype) or _from_unusual_numpy(dtype)
    if found is not None and isinstance(value, (type, np.dtype)):
        _CACHE[value] = found
    return found


def _from_unusual_numpy(dtype: np.dtype[Any]) -> DType | None:
    if dtype.kind in "SUT":
        return string
    if dtype.name == "bfloat16":
        return bfloat16
    if dtype.names is not None and len(dtype.names) == 1:
        # The convention of older programs: a record with one field named after a quantized type.
        named = _BY_NAME.get(dtype.names[0])
        return named if named is not None and named.is_quantized else None
    if not dtype.isnative:
        return _BY_NUMPY.get(dtype.newbyteorder("="))
    for known, found in _BY_NUMPY.items():  # platform aliases such as longlong
        if known == dtype:
            return found
    return None


def np_dtype(value: Any) -> np.dtype[Any]:
    """The numpy dtype object that holds values of a DType (or of what converts to one)."""
    return as_dtype(value).np


def base(value: Any) -> DType:
    """`as_dtype(value).base_dtype`."""
    return as_dtype(value).base_dtype

__getattr__ = named_otherwise(__name__)
