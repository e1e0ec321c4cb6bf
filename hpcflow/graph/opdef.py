"""Op definitions: the typed signature of every op type, and the registry that holds them.

A definition is declared in a few lines next to its shape function and gradient::

    register_op(
        "MatMul",
        inputs="a: T; b: T",
        outputs="product: T",
        attrs="transpose_a: bool = false; transpose_b: bool = false; T: {half, float, int32}",
        shape=matmul_shape,
    )

The notation is that of the GraphDef format's op registry: ``name: type``, ``name: T`` (type
attribute), ``name: Ref(T)``, ``name: N * T`` (N tensors of one type), ``name: Ts`` (a list of
types); attributes are ``name: type``, optionally ``= default`` or ``>= minimum``, or
``name: {allowed, ...}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.base.hooks import Hook
from hpcflow.dtypes import DType
from hpcflow.shapes import TensorShape

ATTR_TYPES = ("string", "int", "float", "bool", "type", "shape", "tensor", "func")


#: ``op_def_proto(op_def)`` is an ``OpDef`` protobuf; `exporter` provides it.
op_def_proto = Hook("the writer of OpDef protobufs")


class _NoDefault:
    def __repr__(self) -> str:
        return "<required>"


REQUIRED: Any = _NoDefault()


class ArgDef(NamedTuple):
    """One input or output: a fixed ``type``, or the attributes that decide its type and number."""

    name: str
    type: DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    @property
    def is_sequence(self) -> bool:
        """True if the argument stands for a list of tensors."""
        return self.number_attr is not None or self.type_list_attr is not None


class AttrDef(NamedTuple):
    """One attribute: its type (``int``, ``list(type)``, ...), default and constraints."""

    name: str
    type: str
    default: Any = REQUIRED
    allowed: tuple | None = None
    minimum: int | None = None


class OpDef:
    """The signature of an op type, with its shape function and gradient function.

    ``shape_fn(op)`` returns one entry per output: a tuple of int or None, or None for unknown rank.
    ``gradient(op, *grads)`` returns one gradient (or None) per input.
    """

    __slots__ = (
        "allows_uninitialized_input",
        "attr_map",
        "attrs",
        "deprecated",
        "explicit_attrs",
        "inferred_attrs",
        "inputs",
        "is_aggregate",
        "is_commutative",
        "is_stateful",
        "name",
        "outputs",
        "shape_fn",
        "signature_names",
    )  # fmt: skip

    def __init__(self, name: str, inputs: Iterable[ArgDef], outputs: Iterable[ArgDef],
                 attrs: Iterable[AttrDef]) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.attrs = tuple(attrs)
        self.attr_map = {a.name: a for a in self.attrs}
        self.is_stateful = False
        self.is_commutative = False
        self.is_aggregate = False
        self.allows_uninitialized_input = False
        self.deprecated: str | None = None
        self.shape_fn: Callable | None = None
        self._check_references()
        inferred = {n for a in self.inputs for n in (a.type_attr, a.number_attr, a.type_list_attr)}
        self.inferred_attrs = frozenset(inferred - {None})
        self.explicit_attrs = tuple(a.name for a in self.attrs if a.name not in inferred)
        self.signature_names = self._signature()

    def _check_references(self) -> None:
        for arg in self.inputs + self.outputs:
            for attr in (arg.type_attr, arg.number_attr, arg.type_list_attr):
                if attr is not None and attr not in self.attr_map:
                    raise ValueError(f"{self.name}: argument {arg.name} names no attribute {attr}")

    def _signature(self) -> tuple[str, ...]:
        """The inputs, then the attributes that must be given, then those with a default."""
        attrs = sorted(self.explicit_attrs, key=lambda a: self.attr_map[a].default is not REQUIRED)
        return tuple([a.name for a in self.inputs] + attrs)

    def to_proto(self):
        """Return the definition as a ``tensorboard.compat.proto.op_def_pb2.OpDef``."""
        return op_def_proto(self)

    @property
    def input_arg(self) -> Any:
        """The inputs as the ``OpDef`` protobuf holds them."""
        return self.to_proto().input_arg

    @property
    def output_arg(self) -> Any:
        """The outputs as the ``OpDef`` protobuf holds them."""
        return self.to_proto().output_arg

    @property
    def attr(self) -> Any:
        """The attributes as the ``OpDef`` protobuf holds them."""
        return self.to_proto().attr

    def __repr__(self) -> str:
        return f"<OpDef {self.name}>"


_OPS: dict[str, OpDef] = {}
GRADIENTS: dict[str, Callable | None] = {}


def registered_ops() -> dict[str, OpDef]:
    """Return every registered op definition by op type (a copy)."""
    return dict(_OPS)


def get_op_def(op_type: str) -> OpDef:
    """Return the definition of `op_type`; raise ``ValueError`` with near matches if unknown."""
    try:
        return _OPS[op_type]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(op_type, _OPS, 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise ValueError(f"Op type not registered: '{op_type}'{hint}") from None


def has_op(op_type: str) -> bool:
    """True if `op_type` is registered."""
    return op_type in _OPS


def register_op(name: str, inputs: str = "", outputs: str = "", attrs: str = "", *,
                shape: Callable | None = None, stateful: bool = False, commutative: bool = False,
                aggregate: bool = False, allows_uninitialized_input: bool = False,
                deprecated: str | None = None) -> OpDef:
    """Register op type `name`; see the module's page for the notation.

    Raises ``ValueError`` when the name is taken or the declaration is malformed.
    """
    if name in _OPS:
        raise ValueError(f"Op type '{name}' is already registered")
    attr_defs = [_parse_attr(s, name) for s in _split(attrs)]
    attr_map = {a.name: a for a in attr_defs}
    op = OpDef(
        name,
        [_parse_arg(s, attr_map, name) for s in _split(inputs)],
        [_parse_arg(s, attr_map, name) for s in _split(outputs)],
        attr_defs,
    )
    op.shape_fn = shape
    op.is_stateful = stateful
    op.is_commutative = commutative
    op.is_aggregate = aggregate
    op.allows_uninitialized_input = allows_uninitialized_input
    op.deprecated = deprecated
    _OPS[name] = op
    return op


# Op types that have a gradient here and had none in 1.x, where programs register their own: theirs
# takes the place of this one.
_LATER_GRADIENTS = frozenset((
    "BesselI0", "BesselI1", "CTCLossV2", "Erfinv", "GRUBlockCell", "IRFFT3D", "LSTMBlockCell",
    "Lu", "MatrixLogarithm", "MaxPoolGradGradWithArgmax", "MaxPoolGradWithArgmax", "Mod", "Ndtri",
    "ParallelConcat", "RFFT3D", "ResizeBicubicGrad", "ResizeBilinearGrad",
    "ResizeNearestNeighborGrad", "SegmentProd", "SoftsignGrad", "SparseSegmentMeanGrad",
    "SparseSegmentSqrtNGrad", "SparseSegmentSumGrad", "TensorScatterMax", "TensorScatterMin",
    "TensorStridedSliceUpdate", "TruncateMod", "Xlog1py"))


class RegisterGradient:
    """Decorator that registers a function as the gradient of an op type.

    The function takes the op and one gradient per output, and returns one gradient per input
    (or a single value for one input); None where no gradient flows. A second registration is a
    ``KeyError``, but for op types that are not differentiable, or were not in 1.x.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable) -> Callable:
        """Register `f` as the gradient function."""
        if has_gradient(self._op_type) and self._op_type not in _LATER_GRADIENTS:
            raise KeyError(f"Registering two gradient with name '{self._op_type}' !")
        GRADIENTS[self._op_type] = f
        return f


def not_differentiable(*op_types: str) -> None:
    """Declare that no gradient flows through these op types."""
    for op_type in op_types:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        if has_gradient(op_type) and op_type not in _LATER_GRADIENTS:
            raise KeyError(f"Registering two gradient with name '{op_type}' !")
        GRADIENTS[op_type] = None


def NotDifferentiable(op_type: str) -> None:
    """Declare that no gradient flows through one op type; see :func:`not_differentiable`."""
    not_differentiable(op_type)


def get_gradient(name: str) -> Callable | None:
    """Return the gradient function registered as `name`, or None if not differentiable.

    Raises ``LookupError`` when nothing was registered.
    """
    try:
        return GRADIENTS[name]
    except KeyError:
        raise LookupError(f"No gradient defined for operation type '{name}'") from None


def has_gradient(name: str) -> bool:
    """True if a gradient function (not None) is registered under `name`."""
    return GRADIENTS.get(name) is not None


# ---------------------------------------------------------------- notation


def _split(text: str) -> list[str]:
    return [s.strip() for s in text.split(";") if s.strip()]


def _parse_arg(text: str, attrs: dict[str, AttrDef], op: str) -> ArgDef:
    match = re.fullmatch(r"(\w+)\s*:\s*(?:(\w+)\s*\*\s*)?(Ref\()?\s*(\w+)\s*\)?", text)
    if not match:
        raise ValueError(f"{op}: cannot read argument '{text}'; want 'name: [N *] type'")
    name, number, ref, kind = match.groups()
    fields: dict[str, Any] = {"number_attr": number, "is_ref": bool(ref)}
    if kind in attrs:
        listed = attrs[kind].type == "list(type)"
        fields["type_list_attr" if listed else "type_attr"] = kind
    else:
        fields["type"] = dtypes.as_dtype(kind)
    return ArgDef(name, **fields)


def _parse_attr(text: str, op: str) -> AttrDef:
    match = re.fullmatch(
        r"(\w+)\s*:\s*(list\([^)]*\)|\{[^}]*\}|\w+)\s*(>=\s*-?\d+)?\s*(=.*)?", text,
        re.DOTALL)
    if not match:
        raise ValueError(f"{op}: cannot read attribute '{text}'; want 'name: type [= default]'")
    name, kind, minimum, default = match.groups()
    allowed = None
    listed = kind.startswith("list(")
    inner = kind[5:-1].strip() if listed else kind
    if inner.startswith("{"):
        items = [s.strip() for s in inner[1:-1].split(",") if s.strip()]
        if items[0][0] in "'\"":
            inner, allowed = "string", tuple(s.strip("'\"").encode() for s in items)
        else:
            inner, allowed = "type", tuple(dtypes.as_dtype(s) for s in items)
    if inner not in ATTR_TYPES:
        raise ValueError(f"{op}: attribute '{name}' has unknown type '{inner}'")
    value = REQUIRED if default is None else _parse_default(default[1:].strip(), inner, listed)
    return AttrDef(name, f"list({inner})" if listed else inner, value, allowed,
                   int(minimum[2:]) if minimum else None)


def _parse_default(text: str, kind: str, listed: bool) -> Any:
    if listed:
        items = [s.strip() for s in text.strip("[]").split(",") if s.strip()]
        return [_parse_default(s, kind, False) for s in items]
    if kind == "string":
        return text.strip("'\"").encode()
    if kind == "bool":
        return text.lower() == "true"
    if kind == "shape":
        return _parse_shape(text)
    if kind == "type":
        return dtypes.as_dtype(text)
    if kind == "tensor":
        return _parse_vector(text)
    return {"int": int, "float": float}[kind](text)


def _parse_vector(text: str) -> np.ndarray:
    """A tensor of rank 1: its dtype, then its values in brackets."""
    dtype, _, values = text.partition("[")
    numbers = [float(s) for s in values.strip("]").split(",") if s.strip()]
    return np.array(numbers).astype(dtypes.as_dtype(dtype.strip()).np)


def _parse_shape(text: str) -> TensorShape:
    if text == "unknown":
        return TensorShape(None)
    return TensorShape([None if d in ("?", "-1") else int(d)
                        for d in (s.strip() for s in text.strip("[]").split(",")) if d])
