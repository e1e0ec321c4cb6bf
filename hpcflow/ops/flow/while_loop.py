"""while_loop: a part of the graph that runs again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import show
from hpcflow.graph.sparse_tensor import is_sparse
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.ops.flow.control_flow_context import current
from hpcflow.ops.flow.while_context import WhileContext
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__ = ["while_loop"]


def while_loop(cond: Callable, body: Callable, loop_vars: TensorLike, shape_invariants: Any = None,
               parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False,
               name: str | None = None, maximum_iterations: Any = None,
               return_same_structure: bool = False) -> Any:
    """Repeat `body` while `cond` is true, and return the loop variables as they then are.

    ``cond(*loop_vars)`` and ``body(*loop_vars)`` are called once, while the graph is built. What
    they read from outside the loop is the same in all iterations. Iterations overlap as far as
    their data allow.

    Args:
        cond: returns a scalar bool tensor.
        body: returns the next values of the variables, in the same structure.
        loop_vars: the initial values: a list or tuple of tensors, IndexedSlices, TensorArrays or
            nests of these.
        shape_invariants: shapes, in the structure of `loop_vars`, that hold in all iterations.
            Without them every variable keeps the static shape of its initial value. (For
            IndexedSlices: the shape of the dense tensor they stand for, or of its values.)
        parallel_iterations: how many iterations may be under way at a time.
        back_prop: False if no gradient will be taken through the loop.
        swap_memory: whether values kept for gradients may move from the device to the host.
        name: the name scope ("while").
        maximum_iterations: a scalar; the loop ends after as many iterations at the latest.
        return_same_structure: whether one variable is returned in its structure too.

    Returns:
        The values after the loop in the structure of `loop_vars`; for one variable its value,
        unless `return_same_structure`.

    Raises:
        TypeError: `cond` or `body` is not callable, or types or containers differ.
        ValueError: there are no loop variables, or the body returns another number of values or
            a shape that is not invariant.
    """
    _check_arguments(cond, body, loop_vars, parallel_iterations)
    if maximum_iterations is not None:
        return _limited(cond, body, loop_vars, shape_invariants, maximum_iterations,
                        return_same_structure, parallel_iterations=parallel_iterations,
                        back_prop=back_prop, swap_memory=swap_memory, name=name)
    with name_scope(name, "while", _graph_values(loop_vars)):
        leaves = [_as_leaf(leaf) for leaf in nest.flatten(loop_vars)]
        initial = [_value(t) for leaf in leaves for t in nest.expand(leaf)]
        dims = [d for leaf in leaves for d in _default_dims(leaf)]
        if shape_invariants is not None:
            dims = _invariant_dims(loop_vars, leaves, initial, shape_invariants)
        graph = get_default_graph()
        context = WhileContext(graph, graph._control_flow_context,
                               parallel_iterations=parallel_iterations, back_prop=back_prop,
                               swap_memory=swap_memory)
        if context.outer_context is None:  # it stands for those inside of it, too
            graph.add_to_collection(GraphKeys.WHILE_CONTEXT, context)
        loop = _Loop(context, loop_vars, leaves)
        loop.build(cond, body, initial, dims)
        return loop.result(return_same_structure)


def _check_arguments(cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Nest,
                     parallel_iterations: int) -> None:
    if not callable(cond):
        raise TypeError(f"while_loop: 'cond' must be callable, got {cond!r}")
    if not callable(body):
        raise TypeError(f"while_loop: 'body' must be callable, got {body!r}")
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError(f"while_loop: 'loop_vars' must be a list or a tuple, got {loop_vars!r}")
    if not nest.flatten(loop_vars):
        raise ValueError("while_loop: No loop variables provided")
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise TypeError("while_loop: 'parallel_iterations' must be a positive integer, got "
                        f"{parallel_iterations!r}")


def _graph_values(loop_vars: Nest) -> list:
    """The tensors among the loop variables, which tell the graph to build in."""
    return [t for leaf in nest.flatten(loop_vars) for t in nest.expand(leaf)]


def _as_leaf(leaf: Any) -> Any:
    return leaf if nest.is_composite(leaf) else convert_to_tensor(leaf)


def _value(tensor: Tensor) -> Tensor:
    """A loop variable is a value, also where it starts as that of a variable."""
    return raw_ops.Identity(tensor) if tensor.dtype._is_ref_dtype else tensor


# ---------------------------------------------------------------- shapes


def _invariant_dims(loop_vars: Any, leaves: list, initial: list[Tensor],
                    invariants: Sequence[TensorShape]) -> list[Dims]:
    """The dims of every tensor of the loop variables in all iterations."""
    given = list(invariants) if isinstance(invariants, (list, tuple)) else [invariants]
    nest.check_same(list(loop_vars), given, "while_loop: loop_vars and shape_invariants")
    dims: list[Dims] = []
    for leaf, shape in zip(leaves, nest.flatten(given), strict=True):
        dims.extend(_leaf_dims(leaf, _shape_of(shape)._dims))
    for tensor, wanted in zip(initial, dims, strict=True):
        if not _is_at_least(tensor._dims, wanted):
            raise ValueError(
                f"while_loop: The shape invariant specified for {tensor.name}, {show(wanted)}, is "
                "not compatible with the initial shape of the loop variable, "
                f"{show(tensor._dims)}")
    return dims


def _shape_of(invariant: ShapeLike | TensorSpec) -> TensorShape:
    return invariant.shape if isinstance(invariant, TensorSpec) else as_shape(invariant)


def _leaf_dims(leaf: Tensor, dims: Dims) -> list[Dims]:
    if isinstance(leaf, IndexedSlices):
        rows = None if dims is None else (None, *dims[1:])
        rank = None if dims is None else len(dims)
        return [rows, (None,), (rank,)][: len(nest.expand(leaf))]
    if is_sparse(leaf):  # the shape is that of the vector `dense_shape`: only the rank is held
        return _sparse_dims(dims)
    if nest.is_composite(leaf):
        return [t._dims for t in nest.expand(leaf)]
    return [dims]


def _default_dims(leaf: Any) -> list[Dims]:
    """The dims of the tensors of a loop variable for which none are given."""
    if is_sparse(leaf):  # the number of values may change
        return _sparse_dims(leaf.dense_shape._dims)
    return [t._dims for t in nest.expand(leaf)]


def _sparse_dims(dims: Dims) -> list[Dims]:
    rank = None if dims is None else dims[0]
    return [(None, rank), (None,), dims if dims is None else (rank,)]


def _is_at_least(dims: Dims, wanted: Dims) -> bool:
    """True if `dims` says at least as much as `wanted`, and nothing else."""
    if wanted is None:
        return True
    if dims is None or len(dims) != len(wanted):
        return False
    return all(w is None or d == w for d, w in zip(dims, wanted, strict=True))


# ---------------------------------------------------------------- building


class _Loop:
    """A loop under construction."""

    def __init__(self, context: WhileContext, structure: Any, leaves: list) -> None:
        self.context = context
        self.structure = self.returned = structure
        self.leaves = leaves
        self.exits: list[Tensor] = []

    def build(self, cond: Callable, body: Callable, initial: list[Tensor],
              dims: list[Dims]) -> None:
        """Add everything from the first Enter to the last Exit."""
        context = self.context
        for tensor, shape in zip(initial, dims, strict=True):
            context.open(tensor, shape)
        for variable, tensor in zip(context.variables, initial, strict=True):
            variable.merge._handle_data = tensor._handle_data
        with current(context):
            pred = convert_to_tensor(cond(*self._packed([v.merge for v in context.variables])))
        context.decide(pred)
        for variable in context.variables:
            context.split(variable)
        with current(context):
            following = self._following(body(*self._packed([v.value for v in context.variables])))
        for variable, tensor in zip(context.variables, following, strict=True):
            context.close(variable, tensor)
        self.exits = [context.leave(v) for v in context.variables]

    def result(self, same_structure: bool) -> Any:
        """The values after the loop; a single one by itself unless `same_structure`."""
        packed = nest.pack_as(self.returned, nest.rebuild_all(self.leaves, self.exits))
        return packed[0] if len(self.exits) == 1 and not same_structure else packed

    def _packed(self, tensors: list[Tensor]) -> Any:
        return nest.pack_as(self.structure, nest.rebuild_all(self.leaves, tensors))

    def _following(self, result: Tensor | Sequence[Any]) -> list[Tensor]:
        """The tensors of what the body returned, checked against the variables."""
        structure = list(self.structure)
        returned, result = result, _as_sequence(result, structure)
        if len(result) != len(structure):
            raise ValueError(f"while_loop: there are {len(structure)} loop variables, but the body "
                             f"returned {len(result)} values, not the same number of elements: "
                             "The two structures don't have the same nested structure.")
        nest.check_same(structure, result, "while_loop: the loop variables and the body's result")
        # As the body returned them: a tuple, mostly, where the variables were given as a list.
        self.returned = returned if _is_one_of_each(returned, structure) else result
        tensors: list[Tensor] = []
        for leaf, value in zip(self.leaves, nest.flatten(result), strict=True):
            tensors.extend(_next_tensors(leaf, value))
        for variable, tensor in zip(self.context.variables, tensors, strict=True):
            _check_invariant(variable.enter, variable.merge._dims, tensor)
        return tensors


def _is_one_of_each(result: Tensor | Sequence[Any], structure: list) -> bool:
    """True if the body returned a container with an entry per loop variable."""
    return isinstance(result, (list, tuple)) and _matches(structure, result)


def _as_sequence(result: Tensor | Sequence[Any], structure: list) -> list:
    """Return the body's results as a list with one entry per loop variable."""
    if not isinstance(result, (list, tuple)):
        return [result]
    if len(structure) == 1 and nest.is_nested(structure[0]) and not _matches(structure, result):
        return [result]
    return list(result)


def _matches(structure: list, result: Sequence[Any]) -> bool:
    try:
        nest.check_same(structure, list(result))
    except (TypeError, ValueError):
        return False
    return True


def _next_tensors(leaf: Any, value: Any) -> list[Tensor]:
    """The tensors of the next value of the variable that started as `leaf`."""
    if value is None:
        raise ValueError("while_loop: the body returned None for a loop variable")
    if nest.is_composite(leaf):
        if type(value) is not type(leaf) or len(nest.expand(value)) != len(nest.expand(leaf)):
            raise TypeError(f"while_loop: a loop variable starts as {leaf!r}, but the body "
                            f"returned {value!r}")
        return nest.expand(value)
    wanted = leaf.dtype.base_dtype
    tensor = convert_to_tensor(value) if hasattr(value, "dtype") else convert_to_tensor(
        value, wanted)
    if tensor.dtype.base_dtype is not wanted:
        raise TypeError(f"while_loop: the loop variable {leaf.name} is {wanted.name}, but the body "
                        f"returned {tensor.dtype.base_dtype.name}: {tensor!r}")
    return [_value(tensor)]


def _check_invariant(enter: Tensor, dims: Dims, following: Tensor) -> None:
    if not _is_at_least(following._dims, dims):
        source = enter.op.inputs[0].name
        raise ValueError(
            f"while_loop: The shape for {source} is not an invariant for the loop. Input tensor "
            f"'{source}' enters the loop with shape {TensorShape(dims)}, but has shape "
            f"{TensorShape(following._dims)} after one iteration. To allow the shape to vary "
            "across iterations, use the `shape_invariants` argument of tf.while_loop to specify a "
            "less-specific shape, or tell the shape in the body by set_shape()")


# ---------------------------------------------------------------- a limit


def _limited(cond: Callable, body: Callable, loop_vars: Any, shape_invariants: Any,
             limit: TensorLike, same_structure: bool, **options: Any) -> Any:
    """Build the loop with a counter of iterations as a further variable."""
    limit = convert_to_tensor(limit, name="maximum_iterations")
    if limit.get_shape().ndims not in (None, 0):
        raise ValueError("while_loop: maximum_iterations must be a scalar, got shape "
                         f"{limit.get_shape()}")
    counter = convert_to_tensor(0, limit.dtype.base_dtype, name="iteration_counter")
    invariants = None
    if shape_invariants is not None:
        invariants = [counter.shape, list(shape_invariants)]

    def still(count: Tensor, variables: list) -> Tensor:
        return raw_ops.LogicalAnd(raw_ops.Less(count, limit),
                                  convert_to_tensor(cond(*variables)))

    def step(count: Tensor, variables: list) -> list:
        following = _as_sequence(body(*variables), list(loop_vars))
        return [raw_ops.Add(count, 1), following]

    _, result = while_loop(still, step, [counter, list(loop_vars)], invariants, **options)
    packed = nest.pack_as(loop_vars, nest.flatten(result))
    return packed[0] if len(nest.flatten(result)) == 1 and not same_structure else packed
