"""Attributes of operations completed: canonical, inferred from flat inputs, with defaults."""

from __future__ import annotations

from typing import Any

from hpcflow.dtypes import DType
from hpcflow.graph.attr_values import canonical, from_proto
from hpcflow.graph.opdef import REQUIRED, OpDef
from hpcflow.graph.operation import Tensor, arg_length, arg_types


def complete_attrs(op_def: OpDef, given: dict[str, Any], inputs: list[Tensor],
                   name: str | None = None) -> dict[str, Any]:
    """Canonical attributes of an op whose input tensors are given flat.

    Accepts own-form values and ``AttrValue`` protobufs; infers type and number attributes that are
    absent; fills in defaults. Raises ``TypeError``/``ValueError`` for what does not fit.
    """
    attrs: dict[str, Any] = {}
    for key, value in given.items():
        if hasattr(value, "WhichOneof"):
            value = from_proto(value)
        attr = op_def.attr_map.get(key)
        attrs[key] = value if attr is None else canonical(value, attr, op_def.name)
    _infer_from_flat(op_def, attrs, inputs)
    for attr in op_def.attrs:
        if attr.name in attrs:
            continue
        if attr.default is REQUIRED:
            raise ValueError(f"{op_def.name} op '{name or ''}': attribute '{attr.name}' is missing")
        attrs[attr.name] = attr.default
    expected = arg_types(op_def.inputs, attrs)
    _check_inputs(op_def, expected, inputs, name)
    return attrs


def _infer_from_flat(op_def: OpDef, attrs: dict[str, Any], inputs: list[Tensor]) -> None:
    position = 0
    for arg in op_def.inputs:
        if arg.type_list_attr is not None and arg.type_list_attr not in attrs:
            attrs[arg.type_list_attr] = [t._dtype.base_dtype for t in inputs[position:]]
        if arg.number_attr is not None and arg.number_attr not in attrs:
            attrs[arg.number_attr] = len(inputs) - position
        if position < len(inputs) and arg.type_attr is not None:
            attrs.setdefault(arg.type_attr, inputs[position]._dtype.base_dtype)
        position += arg_length(arg, attrs)


def _check_inputs(op_def: OpDef, expected: list[DType], inputs: list[Tensor],
                  name: str | None) -> None:
    got = [t._dtype for t in inputs]
    fits = len(got) == len(expected) and all(
        g.base_dtype is e.base_dtype and (g._is_ref_dtype or not e._is_ref_dtype)
        for g, e in zip(got, expected, strict=True))
    if not fits:
        raise TypeError(f"{op_def.name} op '{name or ''}': input types "
                        f"[{', '.join(t.name for t in got)}] do not match the expected "
                        f"[{', '.join(t.name for t in expected)}]")
