"""Build any op of the reference by the names of its registered signature.

Its public builders rename arguments, so ``raw_ops`` cannot be called by GraphDef names there.
"""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import dtypes, op_def_library, op_def_registry, tensor_shape


def add_op(op: str, inputs: dict, attrs: dict) -> Any:
    """Add `op`; `inputs` are in order, whatever their names are; attributes have their defaults."""
    op_def = op_def_registry.get(op)
    if op_def is None:
        raise LookupError(f"the reference has no op {op}")
    names = [a.name for a in op_def.input_arg]
    known = {a.name for a in op_def.attr} - _inferred(op_def)
    given = {k: v for k, v in attrs.items() if k in known}
    return add_by_name(op, **dict(zip(names, inputs.values())), **given)


def add_by_name(op: str, **values: Any) -> Any:
    """Add `op` with inputs and attributes by the names that the reference gives them."""
    op_def = op_def_registry.get(op)
    inferred = _inferred(op_def)
    defaults = {a.name: _value(a.default_value) for a in op_def.attr
                if a.HasField("default_value") and a.name not in inferred}
    return op_def_library.apply_op(op, **{**defaults, **values})


def _inferred(op_def: Any) -> set[str]:
    """The attributes that follow from the inputs."""
    return {n for a in op_def.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr)}


def _value(attr: Any) -> Any:
    kind = attr.WhichOneof("value")
    value = getattr(attr, kind)
    if kind == "tensor":
        return attr.tensor
    if kind == "type":
        return dtypes.as_dtype(value)
    if kind == "shape":
        return tensor_shape.as_shape(value)
    if kind == "list":
        return next(([dtypes.as_dtype(v) for v in items] if name.name == "type" else list(items)
                     for name, items in value.ListFields()), [])
    return value
