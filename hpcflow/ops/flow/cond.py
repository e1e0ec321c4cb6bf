"""cond and case: parts of the graph that run depending on a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from hpcflow.base.keywords import also_ordered
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, control_dependencies, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond_context import CondContext
from hpcflow.ops.flow.control_flow_context import current
from hpcflow.ops.flow.tensor_array import TensorArray

__all__ = ["case", "cond", "switch_case"]


def cond(pred: TensorLike, fn1: Callable | None = None, fn2: Callable | None = None,
         name: str | None = None, *, true_fn: Callable | None = None,
         false_fn: Callable | None = None, strict: bool = False) -> Any:
    """Return what `fn1()` builds if `pred` is true, else what `fn2()` builds.

    Both functions are called once, while the graph is built; in a step only the operations made
    inside the function whose branch is taken run. Operations made outside of both run in any case.

    Args:
        pred: a scalar bool tensor.
        fn1: called for the true branch; returns tensors, operations (their value is `pred`),
            IndexedSlices, TensorArrays or any nest of these.
        fn2: called for the false branch; returns the same structure with the same types.
        name: the name scope ("cond").
        true_fn: another name of `fn1`.
        false_fn: another name of `fn2`.
        strict: keep a list of one; otherwise its only entry is returned.

    Raises:
        TypeError: `pred` is a Python bool, a function is not callable, or the containers differ.
        ValueError: a branch returns nothing, or the two differ in number or types.
    """
    fn1 = _one_of(fn1, true_fn, "fn1", "true_fn")
    fn2 = _one_of(fn2, false_fn, "fn2", "false_fn")
    if isinstance(pred, bool):
        raise TypeError("'pred' must not be a Python bool: use a Python `if` where the value is "
                        "known while the graph is built")
    with name_scope(name, "cond", [pred]):
        pred = convert_to_tensor(pred)
        sides = raw_ops.Switch(data=pred, pred=pred)
        pivots = [raw_ops.Identity(sides[1], name="switch_t"),
                  raw_ops.Identity(sides[0], name="switch_f")]
        held = raw_ops.Identity(pred, name="pred_id")
        graph = held.graph  # that of `pred`, or a function that captures it
        for tensor in (sides[0], *pivots, held):
            tensor.graph.prevent_fetching(tensor.op)
        branches = [_Branch(graph, held, pivot, branch, what)
                    for pivot, branch, what in zip(pivots, (1, 0), ("fn1", "fn2"), strict=True)]
        for branch, function in zip(branches, (fn1, fn2), strict=True):
            branch.build(function, strict)
            if branch.context.outer_context is None:  # it stands for those inside of it, too
                graph.add_to_collection(GraphKeys.COND_CONTEXT, branch.context)
        return _merged(*branches)


def _one_of(first: Callable | None, second: Callable | None, name: str, other: str) -> Callable:
    if first is not None and second is not None:
        raise TypeError(f"cond: '{name}' and '{other}' are the same argument; give one of them")
    found = second if first is None else first
    if found is None:
        raise TypeError(f"cond: '{name}' is missing")
    if not callable(found):
        raise TypeError(f"cond: '{name}' must be callable, got {found!r}")
    return found


class _Branch:
    """One branch: its result, and the tensors of its result inside the branch."""

    def __init__(self, graph: Graph, pred: Tensor, pivot: Tensor, branch: int, what: str) -> None:
        self.context = CondContext(graph, graph._control_flow_context, pred, pivot, branch)
        self.what = what
        self.result: Any = None
        self.leaves: list = []
        self.tensors: list[Tensor] = []

    def build(self, function: Callable, strict: bool) -> None:
        """Call `function` in the branch."""
        with current(self.context):
            result = function()
            if result is None:
                raise ValueError(f"cond: '{self.what}' must have a return value.")
            self.result = result if strict else _only(result)
            self.leaves = [self._leaf(leaf) for leaf in nest.flatten(self.result)]
            self.tensors = [self._inside(t) for leaf in self.leaves for t in nest.expand(leaf)]

    def widen_indices(self, position: int) -> None:
        """Let the IndexedSlices at this leaf have int64 indices."""
        leaf = self.leaves[position]
        index = sum(len(nest.expand(e)) for e in self.leaves[:position]) + 1
        with current(self.context):
            self.tensors[index] = raw_ops.Cast(self.tensors[index], DstT="int64")
        self.leaves[position] = IndexedSlices(leaf.values, self.tensors[index], leaf.dense_shape)

    def inside(self, tensor: Tensor) -> Tensor:
        """The form of `tensor` that belongs to this branch."""
        with current(self.context):
            return self._inside(tensor)

    def _inside(self, tensor: Tensor) -> Tensor:
        inside = self.context.AddValue(tensor)
        return raw_ops.Identity(inside) if inside.dtype._is_ref_dtype else inside

    def _leaf(self, leaf: Any) -> Any:
        if leaf is None:
            raise ValueError(f"cond: '{self.what}' returned None among its values")
        if isinstance(leaf, Operation):  # its value is that the branch was taken
            with control_dependencies([leaf]):
                return raw_ops.Identity(self.context.pivot)
        return leaf if nest.is_composite(leaf) else convert_to_tensor(leaf)


def _only(result: Any) -> Any:
    """The entry of a list or tuple of one."""
    if isinstance(result, (list, tuple)) and len(result) == 1:
        return result[0]
    return result


def _merged(taken: _Branch, other: _Branch) -> Any:
    """The results of the two branches, joined by Merge, in the structure of the first."""
    nest.check_same(taken.result, other.result, "cond: the results of 'fn1' and 'fn2'")
    for i, (a, b) in enumerate(zip(taken.leaves, other.leaves, strict=True)):
        if (isinstance(a, IndexedSlices) and isinstance(b, IndexedSlices)
                and a.indices.dtype.base_dtype is not b.indices.dtype.base_dtype):
            for branch in (taken, other):
                branch.widen_indices(i)
            a, b = taken.leaves[i], other.leaves[i]
        types = [[t.dtype.base_dtype.name for t in nest.expand(leaf)] for leaf in (a, b)]
        if types[0] != types[1]:
            raise ValueError(
                f"cond: 'fn1' and 'fn2' must return values of the same types, but value {i} is "
                f"{', '.join(types[0])} in 'fn1' and {', '.join(types[1])} in 'fn2'")
    pairs = zip(other.tensors, taken.tensors, strict=True)
    merged = [raw_ops.Merge([b, a])[0] for b, a in pairs]
    for tensor, original in zip(merged, taken.tensors, strict=True):
        tensor._handle_data = original._handle_data
    results = nest.rebuild_all(taken.leaves, merged)
    for i, (a, b) in enumerate(zip(taken.leaves, other.leaves, strict=True)):
        if isinstance(a, TensorArray) and isinstance(b, TensorArray) and a.handle is not b.handle:
            handles = [branch.inside(leaf.handle) for branch, leaf in ((other, b), (taken, a))]
            results[i] = results[i].of_handle(raw_ops.Merge(handles)[0])
    return nest.pack_as(taken.result, results)


def switch_case(branch_index: TensorLike, branch_fns: Any, default: Callable | None = None,
                name: str = "switch_case") -> Any:
    """Return what the function with the number `branch_index` builds.

    Args:
        branch_index: a scalar int32 tensor.
        branch_fns: functions, as a list, or as pairs or a dict by number, from 0 on.
        default: the function for other numbers; if None, that of the largest number.
        name: the name scope.

    Raises ``TypeError`` for what is no function and for a `branch_index` that is no tensor of
    integers, ``ValueError`` for numbers that are not those from 0 on, each once.
    """
    if not isinstance(branch_index, Tensor) or not branch_index.dtype.base_dtype.is_integer:
        raise TypeError(f"branch_index must be an integer Tensor, got {branch_index!r}")
    pairs = _numbered(branch_fns)
    with name_scope(name, "switch_case", [branch_index]):
        kind = branch_index.dtype.base_dtype.np
        return case([(raw_ops.Equal(branch_index, np.array(number, kind)), function)
                     for number, function in pairs], default or pairs[-1][1])


def _numbered(branch_fns: Any) -> list[tuple[int, Callable]]:
    """The functions of ``switch_case`` with their numbers, by these."""
    given = list(branch_fns.items() if isinstance(branch_fns, dict) else branch_fns)
    pairs = list(enumerate(given)) if all(callable(b) for b in given) else given
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError("switch_case: branch_fns must be functions, with or without numbers, "
                            f"got {pair!r}")
        if not isinstance(pair[0], int):
            raise TypeError(f"switch_case: a number must be a Python `int`, got {pair[0]!r}")
    numbers = sorted(number for number, _ in pairs)
    if not pairs or numbers != list(range(len(pairs))):
        raise ValueError("switch_case: the numbers of the functions must form contiguous range of "
                         f"[0, {max(len(pairs), 1)}), got {numbers}")
    return sorted(pairs, key=lambda pair: pair[0])


@also_ordered("strict", "name")
def case(pred_fn_pairs: Any, default: Callable | None = None, exclusive: bool = False,
         name: str = "case", strict: bool = False) -> Any:
    """Return what the function of the first true predicate builds, else what `default()` does.

    Args:
        pred_fn_pairs: pairs (scalar bool tensor, function), as a list, or as a dict from
            predicate to function, whose order then decides.
        default: the function for when no predicate is true; if it is None, that is an error in the
            step.
        exclusive: also check in every step that at most one predicate is true.
        name: the name scope.
        strict: keep a list of one; otherwise its only entry is returned.

    Raises:
        TypeError: the pairs are not pairs of a bool tensor and a function.
        ValueError: the functions differ in what they return, or there is nothing to choose from.
        InvalidArgumentError: in a step, if predicates are true that must not be.
    """
    pairs = _checked_pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError(f"case: default must be callable, got {default!r}")
    if not pairs:
        if default is None:
            raise ValueError("case: neither predicates nor a default were given")
        return default()
    preds = [p for p, _ in pairs]
    with name_scope(name, "case", preds):
        checks = []
        if exclusive:
            checks.append(_assert_count(
                preds, "Input error: More than one condition evaluated as True but exclusive=True.",
                raw_ops.LessEqual))
        if default is None:
            checks.append(_assert_count(
                preds, "Input error: None of the conditions evaluated as True.",
                raw_ops.GreaterEqual))
        with control_dependencies(checks):
            return _chosen(pairs, default, strict)


def case_of_conds(cond_fn: Callable, pred_fn_pairs: Sequence[tuple[Any, Callable]],
                  default: Callable | None, exclusive: bool, name: str | None,
                  allow_python_preds: bool = False, **cond_kwargs: Any) -> Any:
    """Do as :func:`case` does by calls of `cond_fn`, which is like :func:`cond`.

    Predicates may also be Python booleans with `allow_python_preds`; else, and for what is no list
    of pairs, it raises ``TypeError``. `cond_kwargs` are passed on.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    if not allow_python_preds:
        _checked_pairs(pairs)
    tensors = [pred for pred, _ in pairs if isinstance(pred, Tensor)]
    checks = []
    with name_scope(name, "case", tensors):
        if exclusive and tensors:
            checks.append(_assert_count(
                tensors, "Input error: More than one condition evaluated as True but "
                "exclusive=True.", raw_ops.LessEqual))

        def choose(rest: list) -> Any:
            if not rest:
                return cast(Callable, default)()
            (pred, function), *others = rest
            if not others and default is None:
                return function()
            return cond_fn(pred, true_fn=function, false_fn=lambda: choose(others), **cond_kwargs)

        with control_dependencies(checks):
            return choose(pairs)


def _checked_pairs(given: Sequence[Any] | Mapping[Any, Any] | int) -> list[tuple[Tensor, Callable]]:
    if isinstance(given, dict):
        given = list(given.items())
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"case: pred_fn_pairs must be a list, a tuple or a dict, got {given!r}")
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"case: each entry must be a pair (predicate, function), got {pair!r}")
        pred, function = pair
        if not isinstance(pred, Tensor) or pred.dtype.base_dtype.name != "bool":
            raise TypeError(f"case: a predicate must be a tensor of type bool, got {pred!r}")
        if not callable(function):
            raise TypeError(f"case: the function for predicate {pred.name} must be callable, got "
                            f"{function!r}")
    return list(given)


def _assert_count(preds: Iterable[Tensor], what: str, compare: Callable[..., Any]) -> Operation:
    """An operation that fails unless the number of true predicates compares with 1 as it must."""
    preds = list(preds)
    packed = raw_ops.Pack(preds, name="preds_c")
    count = raw_ops.Sum(raw_ops.Cast(packed, DstT="int32"), [0], name="num_true_conds")
    names = ", ".join(p.name for p in preds)
    message = f"{what}  Conditions: ({names}), Values:"
    return raw_ops.Assert(compare(count, 1), [message, packed], summarize=len(preds))


def _chosen(pairs: list[tuple[Tensor, Callable]], default: Callable | None,
            strict: bool) -> Any:
    """The first conditional; each next one is built in the false branch of the one before."""
    (pred, function), *rest = pairs
    if rest:
        return cond(pred, function, lambda: _chosen(rest, default, strict), name="cond",
                    strict=strict)
    return cond(pred, function, default or function, name="cond", strict=strict)
