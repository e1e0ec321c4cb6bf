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
    inferred = {n for a in op_def.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr)}
    known = {a.name for a in op_def.attr}
    given = {k: v for k, v in attrs.items() if k in known}
    defaults = {a.name: _value(a.default_value) for a in op_def.attr
                if a.HasField("default_value") and a.name not in inferred}
    return op_def_library.apply_op(op, **dict(zip(names, inputs.values())), **{**defaults, **given})


def _value(attr: Any) -> Any:
    kind = attr.WhichOneof("value")
    value = getattr(attr, kind)
    if kind == "type":
        return dtypes.as_dtype(value)
    if kind == "shape":
        return tensor_shape.as_shape(value)
    if kind == "list":
        return next(([dtypes.as_dtype(v) for v in items] if name.name == "type" else list(items)
                     for name, items in value.ListFields()), [])
    return value
