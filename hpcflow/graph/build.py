"""Building operations by type: inference of type attributes, conversion of inputs, defaults."""

from __future__ import annotations

import contextlib
import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.graph import convert
from hpcflow.graph.attr_values import canonical, check_allowed
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, get_default_graph, graph_of
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import REQUIRED, ArgDef, AttrDef, OpDef, get_op_def
from hpcflow.graph.operation import Operation, Tensor, arg_length, arg_types

_NUMBER_ATTR_MINIMUM = 1
_NUMPY = (np.ndarray, np.generic)
_NO_TENSOR = "<NOT CONVERTIBLE TO TENSOR>"

#: Op type without kernels -> what makes its outputs of other operations, given the graph, the
#: attributes, the inputs and the types of the outputs.
STAND_INS: dict[str, Callable[[Graph, dict[str, Any], list[Tensor], list], list[Tensor]]] = {}

#: Op type of `STAND_INS` that has kernels -> ``condition(attrs)``: those for which it has none.
STAND_IN_WHEN: dict[str, Callable[[dict[str, Any]], bool]] = {}


def has_stand_in(op_type: str, attrs: dict[str, Any]) -> bool:
    """True if operations with such attributes, of a type of `STAND_INS`, are made of others."""
    condition = STAND_IN_WHEN.get(op_type)
    return condition is None or condition(attrs)


@convert.build_op.provide
def apply_op(op_type: str, name: str | None = None, **keywords: Any) -> Any:
    """Add an op of `op_type` to the graph of its inputs (or the default graph).

    Inputs are given by argument name and converted to tensors; type and number attributes are
    inferred from them. Returns the op for a type without outputs, its only output, or a list
    (one entry per output argument; an output that is a list of tensors is a list).

    Raises ``TypeError`` for a wrong dtype or a missing argument, ``ValueError`` for wrong shapes.
    """
    return result_of(build_op(get_op_def(op_type), name, keywords))


def build_op(op_def: OpDef, name: str | None, keywords: dict[str, Any]) -> Operation:
    """As :func:`apply_op`, returning the Operation."""
    graph = _graph_for(op_def, keywords)
    if graph is not get_default_graph():
        with graph.as_default():
            return _build_in_scope(graph, op_def, name, keywords)
    return _build_in_scope(graph, op_def, name, keywords)


def _build_in_scope(graph: Graph, op_def: OpDef, name: str | None, keywords: dict) -> Operation:
    """Constants made for inputs are named inside the op's own scope ("Add/y")."""
    if all(isinstance(keywords.get(a.name), Tensor) for a in op_def.inputs):
        return _build(graph, op_def, name, keywords)
    with graph.name_scope(name or op_def.name.lstrip("_")) as scope:
        return _build(graph, op_def, scope, keywords)


def _graph_for(op_def: OpDef, keywords: dict[str, Any]) -> Graph:
    flat: list[Any] = []
    for arg in op_def.inputs:
        value = keywords.get(arg.name)
        if arg.is_sequence and isinstance(value, (list, tuple)):
            flat.extend(value)
        else:
            flat.append(value)
    return graph_of(flat)


def _build(graph: Graph, op_def: OpDef, name: str | None, keywords: dict[str, Any]) -> Operation:
    attrs: dict[str, Any] = {}
    for attr_name in op_def.inferred_attrs:
        if attr_name in keywords:
            attr = op_def.attr_map[attr_name]
            attrs[attr_name] = canonical(keywords[attr_name], attr, op_def.name)
    _infer_types(op_def, keywords, attrs)
    inputs: list[Tensor] = []
    for arg in op_def.inputs:
        if arg.name not in keywords:
            raise TypeError(f"No argument for input {arg.name} of {op_def.name} Op")
        inputs.extend(_convert_arg(op_def, arg, keywords[arg.name], attrs))
    for attr_name in op_def.explicit_attrs:
        value = keywords.get(attr_name, REQUIRED)
        attr = op_def.attr_map[attr_name]
        if value is REQUIRED or (value is None and attr.default is not REQUIRED):
            value = attr.default
            if value is REQUIRED:
                raise TypeError(f"No argument for attr {attr_name}")
        else:
            value = canonical(value, attr, op_def.name)
        attrs[attr_name] = value
    _check_known(op_def, keywords)
    held = [t.op for t, is_ref in zip(inputs, _ref_flags(op_def, attrs), strict=True) if is_ref]
    with contextlib.ExitStack() as scopes:
        for op in held:  # what changes a variable runs where the variable is
            scopes.enter_context(graph.colocate_with(op))
        if op_def.name in STAND_INS and has_stand_in(op_def.name, attrs):
            return _stand_in(graph, op_def, inputs, attrs, name)
        return graph._add_op(op_def, inputs, attrs, name)


def _stand_in(graph: Graph, op_def: OpDef, inputs: list[Tensor], attrs: dict,
              name: str | None) -> Operation:
    """Build what `op_def` stands for; an operation of its name gives what it results in."""
    types = arg_types(op_def.outputs, attrs)
    with graph.name_scope(name or op_def.name) as scope:
        outputs = STAND_INS[op_def.name](graph, attrs, inputs, types)
        if len(types) == 1:
            return graph._add_op(get_op_def("Identity"), outputs, {"T": types[0]}, scope)
        return graph._add_op(get_op_def("IdentityN"), outputs, {"T": types}, scope)


def _ref_flags(op_def: OpDef, attrs: dict[str, Any]) -> list[bool]:
    flags: list[bool] = []
    for arg in op_def.inputs:
        flags.extend([arg.is_ref] * arg_length(arg, attrs))
    return flags


def _check_known(op_def: OpDef, keywords: dict[str, Any]) -> None:
    known = len(op_def.inputs) + len(op_def.attrs)
    if len(keywords) <= known and all(
            k in op_def.attr_map or any(a.name == k for a in op_def.inputs) for k in keywords):
        return
    names = {a.name for a in op_def.inputs} | set(op_def.attr_map)
    extra = sorted(set(keywords) - names)
    raise TypeError(f"apply_op() got unexpected keyword arguments: {', '.join(extra)}: "
                    f"{op_def.name} takes {', '.join(op_def.signature_names)}")


def _infer_types(op_def: OpDef, keywords: dict[str, Any], attrs: dict[str, Any]) -> None:
    """Take type attributes from the inputs that are tensors already, so that Python numbers
    beside them follow."""
    for arg in op_def.inputs:
        attr = arg.type_attr
        if attr is None or attr in attrs:
            continue
        value: Any = keywords.get(arg.name)
        if arg.number_attr is not None and isinstance(value, (list, tuple)):
            value = next((v for v in value if hasattr(v, "dtype") and hasattr(v, "graph")), None)
        if isinstance(value, Tensor):
            attrs[attr] = value._dtype.base_dtype
        elif hasattr(value, "graph") and isinstance(getattr(value, "dtype", None), DType):
            attrs[attr] = value.dtype.base_dtype


def _convert_arg(op_def: OpDef, arg: ArgDef, value: TensorLike, attrs: dict) -> list[Tensor]:
    if arg.type_list_attr is not None:
        return _convert_list(op_def, arg, value, attrs)
    if arg.number_attr is not None:
        return _convert_sequence(op_def, arg, value, attrs)
    dtype = arg.type if arg.type_attr is None else attrs.get(arg.type_attr)
    tensor = _convert_one(op_def, arg, value, dtype)
    if arg.type_attr is not None:
        dtype = dtype or tensor._dtype.base_dtype
        _check_type_allowed(op_def, arg, dtype)
        attrs[arg.type_attr] = dtype
    _check_mutable(op_def, arg, tensor)
    return [tensor]


def _check_mutable(op_def: OpDef, arg: ArgDef, tensor: Tensor) -> None:
    if arg.is_ref and not tensor._dtype._is_ref_dtype:
        raise TypeError(f"'{op_def.name}' Op requires that input '{arg.name}' be a mutable tensor "
                        "(e.g.: a tf.Variable)")


def _convert_one(op_def: OpDef, arg: ArgDef, value: TensorLike, dtype: DType | None,
                 suffix: str = "") -> Tensor:
    if isinstance(value, Tensor):
        tensor = value
    else:
        preferred = _default_type(op_def, arg, value) if dtype is None else None
        try:
            tensor = convert_to_tensor(value, dtype, arg.name + suffix, preferred, arg.is_ref)
        except TypeError as e:
            if dtype is None:
                raise
            raise TypeError(f"Expected {dtype.base_dtype.name} passed to parameter '{arg.name}' of "
                            f"op '{op_def.name}', got {value!r} of type '{type(value).__name__}' "
                            f"instead. Error: {e}") from None
        except ValueError as e:
            raise ValueError(f"Tried to convert '{arg.name}' to a tensor and failed. Error: "
                             f"{e}") from None
    if dtype is not None and tensor._dtype.base_dtype is not dtype.base_dtype:
        raise TypeError(_type_mismatch(op_def, arg, tensor, dtype))
    return tensor


def _default_type(op_def: OpDef, arg: ArgDef, value: TensorLike) -> DType | None:
    """The type that `value` is given if it can be; NumPy values of an allowed type keep theirs."""
    if arg.type_attr is None:
        return None
    attr = op_def.attr_map[arg.type_attr]
    if attr.default is REQUIRED:
        return None
    if isinstance(value, _NUMPY) and (
            attr.allowed is None or any(value.dtype == t.np for t in attr.allowed)):
        return None
    return attr.default


def _type_mismatch(op_def: OpDef, arg: ArgDef, tensor: Tensor, dtype: DType) -> str:
    got = tensor._dtype.base_dtype.name
    if arg.type_attr is None:
        return (f"Input '{arg.name}' of '{op_def.name}' Op has type {got} that does not match "
                f"expected type of {dtype.base_dtype.name}. The tensor is '{tensor.name}'")
    other = next((a.name for a in op_def.inputs if a.type_attr == arg.type_attr), arg.name)
    return (f"Input '{arg.name}' of '{op_def.name}' Op has type {got} that does not match type "
            f"{dtype.base_dtype.name} of argument '{other}'. The tensor is '{tensor.name}'")


def _check_type_allowed(op_def: OpDef, arg: ArgDef, dtype: DType) -> None:
    attr: AttrDef = op_def.attr_map[arg.type_attr or arg.type_list_attr or ""]
    check_allowed(dtype, attr, arg.name)


def _convert_sequence(op_def: OpDef, arg: ArgDef, value: Any, attrs: dict) -> list[Tensor]:
    """An input that is N tensors of one type."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op_def.name}' Op, not "
                        f"{value!r}.")
    number = op_def.attr_map[arg.number_attr or ""]
    expected = attrs.get(number.name, len(value))
    first = next(a.name for a in op_def.inputs if a.number_attr == number.name)
    if len(value) != expected:
        raise ValueError(f"List argument '{arg.name}' to '{op_def.name}' Op with length "
                         f"{len(value)} must match length {expected} of argument '{first}'.")
    minimum = number.minimum if number.minimum is not None else _NUMBER_ATTR_MINIMUM
    if len(value) < minimum:
        raise ValueError(f"List argument '{arg.name}' to '{op_def.name}' Op with length "
                         f"{len(value)} shorter than minimum length {minimum}.")
    attrs[number.name] = len(value)
    if arg.type_list_attr is not None:
        return _convert_list(op_def, arg, value, attrs)
    dtype = arg.type if arg.type_attr is None else attrs.get(arg.type_attr)
    tensors = []
    try:
        for i, item in enumerate(value):
            tensors.append(_convert_one(op_def, arg, item, dtype, f"_{i}"))
            dtype = dtype or tensors[0]._dtype.base_dtype
    except (TypeError, ValueError) as e:
        raise TypeError(f"{_types_passed(op_def, arg, value)} that "
                        f"{_wanted(op_def, arg, attrs)}.") from e
    for tensor in tensors:
        _check_mutable(op_def, arg, tensor)
    if arg.type_attr is not None:
        if dtype is None:  # an empty list fixes no type
            default = op_def.attr_map[arg.type_attr].default
            if default is REQUIRED:
                raise TypeError("Don't know how to infer type variable from empty input list "
                                f"passed to input '{arg.name}' of '{op_def.name}' Op.")
            dtype = default
        _check_type_allowed(op_def, arg, dtype)
        attrs[arg.type_attr] = dtype
    return tensors


def _convert_list(op_def: OpDef, arg: ArgDef, value: Any, attrs: dict) -> list[Tensor]:
    """An input that is a list of tensors of various types."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op_def.name}' Op, not "
                        f"{value!r}.")
    attr = op_def.attr_map[arg.type_list_attr or ""]
    types = attrs.get(attr.name)
    if types is not None and len(types) != len(value):
        raise ValueError(f"List argument '{arg.name}' to '{op_def.name}' Op with length "
                         f"{len(value)} must match the {len(types)} types of attr '{attr.name}'")
    if attr.minimum is not None and len(value) < attr.minimum:
        raise ValueError(f"List argument '{arg.name}' to '{op_def.name}' Op with length "
                         f"{len(value)} shorter than minimum length {attr.minimum}.")
    wanted = types or [None] * len(value)
    try:
        tensors = [_convert_one(op_def, arg, v, t, f"_{i}")
                   for i, (v, t) in enumerate(zip(value, wanted, strict=True))]
    except (TypeError, ValueError) as e:
        raise TypeError(_list_mismatch(op_def, arg, value, types)) from e
    if types is None:
        attrs[attr.name] = [t._dtype.base_dtype for t in tensors]
        for dtype in attrs[attr.name]:
            _check_type_allowed(op_def, arg, dtype)
    return tensors


def _list_mismatch(op_def: OpDef, arg: ArgDef, values: Any, types: list[DType] | None) -> str:
    """Say why `values` are not a list of tensors, or not one of `types`."""
    got = _type_names(values)
    if types is None or _NO_TENSOR in got:
        return f"{_types_passed(op_def, arg, values)} that are invalid. Tensors: {values}"
    other = next(a.name for a in op_def.inputs if a.type_list_attr == arg.type_list_attr)
    return (f"Input '{arg.name}' of '{op_def.name}' Op has type list of {', '.join(got)} that does "
            f"not match type list {', '.join(t.name for t in types)} of argument '{other}'.")


def _wanted(op_def: OpDef, arg: ArgDef, attrs: dict) -> str:
    """Say what the types of the tensors of `arg`, N of one type, do not do."""
    if arg.type is not None:
        return f"do not match expected type {arg.type.name}"
    before = op_def.inputs[:op_def.inputs.index(arg)]
    if any(other.type_attr == arg.type_attr for other in before):
        return (f"do not match type {attrs[arg.type_attr or ''].name} inferred from earlier "
                "arguments")
    return "don't all match"


def _types_passed(op_def: OpDef, arg: ArgDef, values: Any) -> str:
    return (f"Tensors in list passed to '{arg.name}' of '{op_def.name}' Op have types "
            f"[{', '.join(_type_names(values))}]")


def _type_names(values: Any) -> list[str]:
    """The type that each value has as a tensor of its own."""
    names = []
    for value in values:
        try:
            names.append(convert_to_tensor(value)._dtype.base_dtype.name)
        except (TypeError, ValueError):
            names.append(_NO_TENSOR)
    return names


def result_of(op: Operation) -> Any:
    """Return the result of a builder for `op`: the op, its only output, or a namedtuple of its
    outputs."""
    outputs = op._outputs
    args = op.op_def.outputs
    if not args:
        return op
    if len(args) == 1:
        return list(outputs) if args[0].is_sequence else outputs[0]
    results: list[Any] = []
    start = 0
    for arg in args:
        count = arg_length(arg, op._attrs)
        part = outputs[start : start + count]
        results.append(list(part) if arg.is_sequence else part[0])
        start += count
    return _result_class(op.type, tuple([arg.name for arg in args]))._make(results)


@functools.cache
def _result_class(op_type: str, names: tuple[str, ...]) -> Any:
    return namedtuple(op_type.lstrip("_"), names, rename=True)


