"""``raw_ops``: a builder for every registered op type, named by the type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from hpcflow.dtypes import DType
from hpcflow.graph.build import build_op, result_of
from hpcflow.graph.opdef import REQUIRED, ArgDef, OpDef, get_op_def, registered_ops


class RawOps:
    """Attributes are builders: ``raw_ops.MatMul(a=x, b=y, transpose_a=True, name="product")``.

    A builder's signature lists the inputs, the attributes that inputs do not imply, then ``name``.
    Inside the library the inputs may also be given by position.
    """

    def __getattr__(self, op_type: str) -> Callable:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        try:
            op_def = get_op_def(op_type)
        except ValueError as e:
            raise AttributeError(f"{e}. hpcflow does without it; use `hpcflow.extending` for op "
                                 "types of your own") from None
        builder = _builder(op_def)
        setattr(self, op_type, builder)
        return builder

    def __dir__(self) -> list[str]:
        return sorted(registered_ops())


def _builder(op_def: OpDef) -> Callable:
    names = op_def.signature_names

    def build(*args: Any, name: str | None = None, **keywords: Any) -> Any:
        if args:
            if len(args) > len(names):
                raise TypeError(f"{op_def.name} takes at most {len(names)} arguments: "
                                f"{', '.join(names)}")
            for key, value in zip(names, args, strict=False):
                if key in keywords:
                    raise TypeError(f"{op_def.name} got two values for '{key}'")
                keywords[key] = value
        return result_of(build_op(op_def, name, keywords))

    build.__name__ = build.__qualname__ = op_def.name
    build.__doc__ = _documentation(op_def)
    build.__signature__ = _signature(op_def)  # type: ignore[attr-defined]
    return build


def _documentation(op_def: OpDef) -> str:
    """A docstring that says what goes in, what comes out, and of which types."""
    lines = [f"Add an op of type {op_def.name} to the graph; see :class:`RawOps`.", ""]
    for title, args in ("Inputs", op_def.inputs), ("Outputs", op_def.outputs):
        if args:
            lines.append(f"{title}: {', '.join(map(_described, args))}.")
    for attr in op_def.attrs:
        if attr.allowed is not None:
            names = ", ".join(a.name if isinstance(a, DType) else repr(a.decode())
                              for a in attr.allowed)
            lines.append(f"``{attr.name}`` is one of {names}.")
    return "\n".join(lines)


def _described(arg: ArgDef) -> str:
    kind = arg.type_attr or arg.type_list_attr or (arg.type.name if arg.type else "any type")
    count = f"{arg.number_attr} of " if arg.number_attr else ""
    return f"``{arg.name}`` ({count}{kind})"


def _signature(op_def: OpDef) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = []
    for key in op_def.signature_names:
        attr = op_def.attr_map.get(key)
        default = REQUIRED if attr is None else attr.default
        empty = inspect.Parameter.empty
        parameters.append(inspect.Parameter(key, kind,
                                            default=empty if default is REQUIRED else default))
    parameters.append(inspect.Parameter("name", kind, default=None))
    return inspect.Signature(parameters)


raw_ops: Any = RawOps()
