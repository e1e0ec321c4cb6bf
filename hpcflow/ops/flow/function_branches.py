"""``functional_ops``: conditionals and loops whose branches and bodies are defined functions.

An operation of the name that is given has the results: they can be fetched by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.dtypes import as_dtype
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.attr_values import Func
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, get_default_graph, name_scope
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow import functional_control_flow  # noqa: F401  (it says what If and While do)
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.shapes import ShapeLike

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
    types = output_types(then_branch)
    if types != output_types(else_branch):
        raise ValueError("If: the branches must return the same types, but do "
                         f"{types} and {output_types(else_branch)}")
    values = _values(inputs, then_branch)
    attrs = {"then_branch": as_func(then_branch), "else_branch": as_func(else_branch),
             "output_shapes": []}
    return _lowered("If", name, attrs, [convert_to_tensor(cond), *values], types)


def case(branch_index: TensorLike, input: Sequence[TensorLike], Tout: Sequence[Any],
         branches: Sequence[Any], output_shapes: Sequence[ShapeLike] = (),
         name: str | None = None) -> list[Tensor]:
    """Return what branch number `branch_index` returns for `input`; the last one for a number that
    there is no branch of."""
    types = [as_dtype(t) for t in Tout]
    values = _values(input, branches[0])
    attrs = {"branches": [as_func(b) for b in branches], "output_shapes": list(output_shapes)}
    return _lowered("Case", name, attrs, [convert_to_tensor(branch_index, "int32"), *values], types)


def While(input_: Sequence[TensorLike], cond: Any, body: Any, name: str | None = None,
          hostmem: list[int] | None = None) -> list[Tensor]:
    """Return the values after ``while cond(*values): values = body(*values)``.

    `hostmem` means nothing here. Raises ``ValueError`` if the functions take other types, `body`
    returns others than it takes, or `cond` takes values from outside that it does not name;
    ``InvalidArgumentError`` for another number of outputs.
    """
    _check_captures(cond, "While", "'cond'")
    taken = list(body.declared_input_types)
    if list(cond.declared_input_types) != taken:
        raise ValueError("While op 'cond' and 'body' signatures do not match. "
                         f"{list(cond.declared_input_types)} vs {taken}")
    if len(output_types(cond)) != 1:
        raise _invalid("Expected a single scalar from 'cond', but got "
                       f"{len(output_types(cond))} tensors.")
    _check_count("While", body, len(taken))
    if output_types(body) != taken:
        raise ValueError("While op 'body' must return the types that it takes, "
                         f"{taken}, but returns {output_types(body)}")
    values = _values(input_, body)
    if body.captured_inputs:
        return _loop_with_captures(values, cond, body, name)
    attrs = {"cond": as_func(cond), "body": as_func(body), "output_shapes": [],
             "parallel_iterations": 10}
    return _lowered("While", name, attrs, values, taken)


def For(start: TensorLike, limit: TensorLike, delta: TensorLike, inputs: Sequence[TensorLike],
        body: Any, name: str | None = None, hostmem: list[int] | None = None,
        rewrite_with_while: bool | None = None) -> list[Tensor]:
    """Return the values after ``for i in range(start, limit, delta): values = body(i, *values)``.

    `start`, `limit` and `delta` are int32 scalars. `hostmem` means nothing here, and
    `rewrite_with_while` only names it "While". Raises ``ValueError`` if `body` returns others than
    the types of `inputs`, ``InvalidArgumentError`` for another number of them or for bounds that
    are no scalars or cannot be reached.
    """
    taken = list(body.declared_input_types)
    values = [convert_to_tensor(x, t) for x, t in zip(inputs, taken[1:], strict=True)]
    _check_count("For", body, len(taken) - 1)
    if output_types(body) != taken[1:]:
        raise ValueError(f"For op 'body' must return the types {taken[1:]}, but returns "
                         f"{output_types(body)}")
    with name_scope(name, "While" if rewrite_with_while else "For", values) as scope:
        steps = [convert_to_tensor(x, "int32") for x in (start, limit, delta)]
        try:
            count = raw_ops.Size(raw_ops.Range(*steps))
        except ValueError as e:
            raise _invalid(f"Invalid start/limit/delta: {e}") from None

        def once(n: Tensor, *now: Tensor) -> list:
            outputs = _as_list(body(raw_ops.Add(steps[0], raw_ops.Mul(n, steps[2])), *now))
            if values:
                return [raw_ops.Add(n, 1), *outputs]
            with control_dependencies(outputs):
                return [raw_ops.Add(n, 1)]

        results = while_loop(lambda n, *_: raw_ops.Less(n, count), once,
                             [convert_to_tensor(0, "int32"), *values])
        if values:
            return list(raw_ops.IdentityN(list(results[1:]), name=scope))
        with control_dependencies([results]):
            raw_ops.NoOp(name=scope)
        return []


def _loop_with_captures(values: list[Tensor], cond: Any, body: Any,
                        name: str | None) -> list[Tensor]:
    with name_scope(name, "While", values) as scope:
        results = while_loop(lambda *now: cond(*now), lambda *now: _as_list(body(*now)), values)
        return list(raw_ops.IdentityN(results if len(values) > 1 else [results], name=scope))


def _lowered(op_type: str, name: str | None, attrs: dict[str, Any], inputs: list[Tensor],
             types: list) -> list[Tensor]:
    """What the op type stands for, and an operation of that name with the results."""
    with name_scope(name, op_type, inputs) as scope:
        results = LOWERED[op_type](get_default_graph(), attrs, inputs, types)
        if not results:
            raw_ops.NoOp(name=scope)
            return []
        return list(raw_ops.IdentityN(results, name=scope))


def _invalid(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _check_count(what: str, body: Any, expected: int) -> None:
    count = len(output_types(body))
    if count != expected:
        raise _invalid(f"{what} loop body returned {count} arguments. Expected: {expected}")


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


def output_types(function: Any) -> list[Any]:
    """The types of what a defined function returns."""
    return [as_dtype(arg.type) for arg in function.definition.signature.output_arg]


def as_func(function: Any) -> Func:
    """`function` as the value of an attribute; the default graph gets to know it."""
    function.add_to_graph(get_default_graph())
    return Func(function.name, {})
