"""``functional_ops``: conditionals and loops whose branches and bodies are defined functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.dtypes import as_dtype
from hpcflow.graph.attr_values import Func
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow import functional_control_flow  # noqa: F401  (it says what If and While do)
from hpcflow.ops.flow.while_loop import while_loop

__all__ = ["For", "If", "While"]


def If(cond: TensorLike, inputs: Sequence[TensorLike], then_branch: Any, else_branch: Any,
       name: str | None = None) -> list[Tensor]:
    """Return ``then_branch(*inputs)`` where `cond` is true, else ``else_branch(*inputs)``.

    `cond` may be of any type: numbers are true that are not 0, strings that are not empty. Raises
    ``ValueError`` if the functions do not return the same types, or take values from outside that
    they do not name.
    """
    for branch in (then_branch, else_branch):
        _check_captures(branch, "If", "branches")
    types = _output_types(then_branch)
    if types != _output_types(else_branch):
        raise ValueError("If: the branches must return the same types, but do "
                         f"{types} and {_output_types(else_branch)}")
    values = _values(inputs, then_branch)
    with name_scope(name, "If", values):
        attrs = {"then_branch": _func(then_branch), "else_branch": _func(else_branch),
                 "output_shapes": []}
        return LOWERED["If"](get_default_graph(), attrs, [convert_to_tensor(cond), *values], types)


def While(input_: Sequence[TensorLike], cond: Any, body: Any, name: str | None = None,
          hostmem: list[int] | None = None) -> list[Tensor]:
    """Return the values after ``while cond(*values): values = body(*values)``.

    `hostmem` means nothing here. Raises ``ValueError`` if the functions take other types, `body`
    returns others than it takes, or `cond` takes values from outside that it does not name.
    """
    _check_captures(cond, "While", "'cond'")
    taken = list(body.declared_input_types)
    if list(cond.declared_input_types) != taken:
        raise ValueError("While op 'cond' and 'body' signatures do not match. "
                         f"{list(cond.declared_input_types)} vs {taken}")
    if _output_types(body) != taken:
        raise ValueError("While op 'body' must return the types that it takes, "
                         f"{taken}, but returns {_output_types(body)}")
    values = _values(input_, body)
    if body.captured_inputs:
        return _loop_with_captures(values, cond, body, name)
    with name_scope(name, "While", values):
        attrs = {"cond": _func(cond), "body": _func(body), "output_shapes": [],
                 "parallel_iterations": 10}
        return LOWERED["While"](get_default_graph(), attrs, values, taken)


def For(start: TensorLike, limit: TensorLike, delta: TensorLike, inputs: Sequence[TensorLike],
        body: Any, name: str | None = None, hostmem: list[int] | None = None,
        rewrite_with_while: bool | None = None) -> list[Tensor]:
    """Return the values after ``for i in range(start, limit, delta): values = body(i, *values)``.

    `start`, `limit` and `delta` are int32 scalars. `hostmem` and `rewrite_with_while` mean nothing
    here. Raises ``ValueError`` if `body` returns others than the types of `inputs`.
    """
    taken = list(body.declared_input_types)
    values = [convert_to_tensor(x, t) for x, t in zip(inputs, taken[1:], strict=True)]
    if _output_types(body) != taken[1:]:
        raise ValueError(f"For op 'body' must return the types {taken[1:]}, but returns "
                         f"{_output_types(body)}")
    with name_scope(name, "For", values):
        steps = [convert_to_tensor(x, "int32") for x in (start, limit, delta)]
        count = raw_ops.Size(raw_ops.Range(*steps))
        results = while_loop(
            lambda n, *_: raw_ops.Less(n, count),
            lambda n, *now: [raw_ops.Add(n, 1), *_as_list(body(
                raw_ops.Add(steps[0], raw_ops.Mul(n, steps[2])), *now))],
            [convert_to_tensor(0, "int32"), *values])
        return list(results[1:]) if values else []


def _loop_with_captures(values: list[Tensor], cond: Any, body: Any,
                        name: str | None) -> list[Tensor]:
    results = while_loop(lambda *now: cond(*now), lambda *now: _as_list(body(*now)), values,
                         name=name or "While")
    return list(results) if len(values) > 1 else [results]


def _as_list(outputs: Any) -> list[Tensor]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _check_captures(function: Any, op_type: str, what: str) -> None:
    if function.captured_inputs:
        raise ValueError(f"{op_type} op {what} argument must be a function without implicitly "
                         "captured inputs.")


def _values(inputs: Sequence[TensorLike], function: Any) -> list[Tensor]:
    """The inputs as tensors of the types that `function` takes.

    Raises ``ValueError`` if it takes another number of them.
    """
    types = list(function.declared_input_types)
    if len(types) != len(inputs):
        raise ValueError(f"'{function.name}' takes {len(types)} inputs, but got {len(inputs)}")
    return [convert_to_tensor(x, t) for x, t in zip(inputs, types, strict=True)]


def _output_types(function: Any) -> list[Any]:
    return [as_dtype(arg.type) for arg in function.definition.signature.output_arg]


def _func(function: Any) -> Func:
    function.add_to_graph(get_default_graph())
    return Func(function.name, {})
