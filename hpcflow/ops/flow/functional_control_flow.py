"""Conditionals and loops over functions, as newer graphs have them: If, While, Case.

On import they become what `cond` and `while_loop` build: their branches and bodies are put into the
graph, so that they run, and are differentiated, like any others. The import keeps an operation of
the node's name, an IdentityN of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.graph.attr_values import Func
from hpcflow.graph.graph import Graph, control_dependencies
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    unknown,
)
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.flow.functions import Function, instantiate
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.shapes import TensorShape

__all__: list[str] = []

_SHAPES = "output_shapes: list(shape) = []"
for _prefix, _stateful in (("", True), ("Stateless", False)):
    register_op(f"{_prefix}If", "cond: Tcond; input: Tin", "output: Tout",
                "Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; "
                f"else_branch: func; {_SHAPES}", stateful=_stateful, shape=unknown)
    register_op(f"{_prefix}Case", "branch_index: int32; input: Tin", "output: Tout",
                "Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; "
                f"{_SHAPES}", stateful=_stateful, shape=unknown)
    register_op(f"{_prefix}While", "input: T", "output: T",
                f"T: list(type) >= 0; cond: func; body: func; {_SHAPES}; "
                "parallel_iterations: int = 10", stateful=_stateful, shape=unknown)
    not_differentiable(f"{_prefix}If", f"{_prefix}Case", f"{_prefix}While")


def _function(graph: Graph, func: Func) -> Function:
    function = graph._get_function(func.name)
    if function is None:
        raise ValueError(f"there is no function called '{func.name}'")
    return function


def _run(graph: Graph, func: Func, inputs: list[Tensor]) -> list[Tensor]:
    """The outputs of a function put in place; they are there when all it does is done."""
    with graph.name_scope(func.name):
        outputs, effects = instantiate(_function(graph, func), func.attrs, inputs)
        if not effects:
            return outputs
        with control_dependencies(effects):
            return [raw_ops.Identity(t) for t in outputs]


# ---------------------------------------------------------------- conditionals


def _if(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor], types: list) -> list[Tensor]:
    then, otherwise = (_branch(graph, attrs[f"{key}_branch"], inputs[1:])
                       for key in ("then", "else"))
    pred = _truth(inputs[0])
    value = constant_value(pred)
    if value is not None:  # known while the graph is made: only one branch is
        return _with_shapes((then if value else otherwise)()[: len(types)], attrs)
    results = cond(pred, then, otherwise, strict=True)
    return _with_shapes(results[: len(types)], attrs)


def _branch(graph: Graph, func: Func, inputs: list[Tensor]) -> Callable[[], list]:
    def build() -> list:
        with graph.name_scope(func.name):
            outputs, effects = instantiate(_function(graph, func), func.attrs, inputs)
            with control_dependencies(effects):
                # One more output, so that there is one, which waits for the effects.
                return [*(raw_ops.Identity(t) for t in outputs), raw_ops.NoOp()]

    return build


def _truth(value: Tensor) -> Tensor:
    """`value` as a predicate: numbers are true that are not 0, strings that are not empty, and
    tensors that have elements."""
    dims = value._dims
    if dims is not None and len(dims) > 0:
        return raw_ops.Greater(raw_ops.Size(value), 0)
    number = _number_truth(value)
    if dims is not None:
        return number
    rank = raw_ops.Rank(value)
    one = raw_ops.All(number, raw_ops.Range(0, rank, 1))
    return raw_ops.LogicalAnd(raw_ops.Greater(raw_ops.Size(value), 0),
                              raw_ops.LogicalOr(raw_ops.Greater(rank, 0), one))


def _number_truth(value: Tensor) -> Tensor:
    """Element by element."""
    dtype = value.dtype.base_dtype
    if dtype.name == "bool":
        return raw_ops.Identity(value) if value.dtype._is_ref_dtype else value
    zero: Any = b"" if dtype.name == "string" else np.zeros((), dtype.np)
    return raw_ops.NotEqual(value, zero)


def _case(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor], types: list) -> list[Tensor]:
    """The branch of that number; the last for a number that there is none of."""
    index, rest = inputs[0], inputs[1:]
    branches = [_branch(graph, func, rest) for func in attrs["branches"]]

    def choose(first: int) -> list:
        if first == len(branches) - 1:
            return branches[first]()
        return cond(raw_ops.Equal(index, first), branches[first], lambda: choose(first + 1),
                    strict=True)

    return _with_shapes(choose(0)[: len(types)], attrs)


def _with_shapes(outputs: list[Tensor], attrs: dict[str, Any]) -> list[Tensor]:
    """The outputs with the shapes that the node says they have."""
    for tensor, shape in zip(outputs, attrs["output_shapes"], strict=False):
        tensor.set_shape(shape)
    return list(outputs)


# ---------------------------------------------------------------- loops


def _while(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor], types: list) -> list[Tensor]:
    """Inputs that the body returns as they are need not go round."""
    fixed = _unchanged(_function(graph, attrs["body"]))
    moving = [i for i in range(len(inputs)) if i not in fixed]
    dims = _invariant_dims(inputs, attrs["output_shapes"])

    def full(variables: Sequence[Any]) -> list[Tensor]:
        found = list(inputs)
        for i, tensor in zip(moving, variables, strict=False):
            found[i] = tensor
        return found

    def again(*variables: Tensor) -> Tensor:
        return _truth(_run(graph, attrs["cond"], full(variables))[0])

    def body(*variables: Tensor) -> list:
        outputs = _run(graph, attrs["body"], full(variables))
        for i in moving:
            outputs[i].set_shape(TensorShape(dims[i]))
        return [outputs[i] for i in moving] + list(variables[len(moving):])

    # A loop without variables, which ends by an effect, still needs one.
    start = [inputs[i] for i in moving] or [raw_ops.Const(value=np.int32(0), dtype="int32")]
    shapes = [TensorShape(dims[i]) for i in moving] or [TensorShape(())]
    results = while_loop(again, body, start, shapes,
                         parallel_iterations=max(attrs["parallel_iterations"], 1), name="loop")
    return full(results if len(start) > 1 else [results])


def _unchanged(body: Function) -> set[int]:
    """The numbers of the inputs that a body returns as they are."""
    proto = body.to_proto()
    copies = {n.name: n.input[0] for n in proto.node_def
              if n.op == "Identity" and len(n.input) == 1}
    found = set()
    for i, (arg, output) in enumerate(zip(proto.signature.input_arg, proto.signature.output_arg,
                                          strict=True)):
        name = proto.ret[output.name].partition(":")[0]
        while name in copies:
            name = copies[name].partition(":")[0]
        if name == arg.name:
            found.add(i)
    return found


def _invariant_dims(inputs: list[Tensor], shapes: list[TensorShape]) -> list[Dims]:
    """The dims of every variable in all iterations: what the node says, where that allows for the
    initial value; a node that says nothing does not promise anything."""
    found: list[Dims] = []
    for i, tensor in enumerate(inputs):
        dims = shapes[i]._dims if i < len(shapes) else None
        initial = tensor._dims
        fits = dims is not None and initial is not None and len(dims) == len(initial) and all(
            d is None or d == s for d, s in zip(dims, initial, strict=True))
        found.append(dims if fits else None)
    return found


# ---------------------------------------------------------------- calls


def _batch_function(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor],
                    types: list) -> list[Tensor]:
    """A batch has the rows of one call: no other step's are put with them."""
    return _run(graph, attrs["f"], inputs)


def _remote_call(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor],
                 types: list) -> list[Tensor]:
    target = constant_value(inputs[0])
    if target is None:
        raise ValueError("RemoteCall: the device must be known while the graph is made")
    with graph.device(target.item().decode()):
        return _run(graph, attrs["f"], inputs[1:])


_LOW = "low_priority_"
register_op("BatchFunction", "in_tensors: Tin; captured_tensors: Tcaptured", "out_tensors: Tout",
            "f: func; num_batch_threads: int; max_batch_size: int; batch_timeout_micros: int; "
            "max_enqueued_batches: int = 10; allowed_batch_sizes: list(int) = []; "
            "container: string = ''; shared_name: string = ''; batching_queue: string = ''; "
            f"{_LOW}max_batch_size: int = 0; {_LOW}batch_timeout_micros: int = 0; "
            f"{_LOW}allowed_batch_sizes: list(int) = []; {_LOW}max_enqueued_batches: int = 0; "
            f"mixed_priority_policy: string = '{_LOW}padding_with_max_batch_size'; "
            "batch_padding_policy: string = 'PAD_UP'; Tin: list(type) >= 1; "
            "Tcaptured: list(type) >= 0; Tout: list(type) >= 1; "
            "enable_large_batch_splitting: bool = false", stateful=True, shape=unknown)
register_op("RemoteCall", "target: string; args: Tin", "output: Tout",
            "Tin: list(type) >= 1; Tout: list(type) >= 1; f: func", stateful=True, shape=unknown)
not_differentiable("BatchFunction", "RemoteCall")

LOWERED.update({"If": _if, "StatelessIf": _if, "Case": _case, "StatelessCase": _case,
                "While": _while, "StatelessWhile": _while, "BatchFunction": _batch_function,
                "RemoteCall": _remote_call})

register_op("FakeParam", outputs="output: dtype", attrs="dtype: type; shape: shape",
            shape=lambda op: [op._attrs["shape"]._dims])
not_differentiable("FakeParam")
