"""Blocks that need no memory for the backward pass: reversible layers, and layers computed again
(Gomez et al., NIPS 2017)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import hpcflow as hf
from hpcflow.autodiff.custom import variables_read
from hpcflow.graph import nest
from hpcflow.graph.operation import Tensor

_Pair = tuple[Any, Any]


class RevBlock:
    """Reversible layers: ``y1 = x1 + f(x2)``, ``y2 = x2 + g(y1)``, one after the other.

    The gradient computes what it needs of the layers back from their results. The variables are
    in the scope ``revblock``, in ``revlayer_<number>/f`` and ``.../g``.
    """

    def __init__(self, f: Callable | Sequence[Callable], g: Callable | Sequence[Callable],
                 num_layers: int = 1, f_side_input: Sequence[Tensor] | None = None,
                 g_side_input: Sequence[Tensor] | None = None,
                 use_efficient_backprop: bool = True) -> None:
        """Take the functions.

        Args:
            f, g: functions of a tensor that give one of its shape, or a list of one for each layer.
            num_layers: the number of layers.
            f_side_input, g_side_input: if given, a list of tensors that is the second argument of
                the functions.
            use_efficient_backprop: False: keep what the layers compute for the gradient.

        Raises ``ValueError`` for lists of another length than `num_layers`.
        """
        self._functions = list(zip(_each(f, num_layers), _each(g, num_layers), strict=True))
        self._side = list(f_side_input or ()), list(g_side_input or ())
        self._back = use_efficient_backprop
        with hf.variable_scope(None, "revblock") as self._scope:
            pass
        self._scopes: dict[tuple[int, int], Any] = {}  # of each function

    def forward(self, x1: Tensor, x2: Tensor) -> _Pair:
        """Return y1 and y2."""
        if not self._back:
            return self._forward((x1, x2), self._side)
        split = len(self._side[0])

        @hf.custom_gradient
        def computed(x1: Tensor, x2: Tensor, *side: Tensor) -> tuple:
            sides = list(side[:split]), list(side[split:])
            ys = self._forward((x1, x2), sides)

            def grad(*upstream: Any, variables: Sequence[Any] = ()) -> Any:
                found = self._gradients(ys, upstream, sides, variables)
                of_inputs = found[:2 + len(side)]
                return (of_inputs, found[2 + len(side):]) if variables else of_inputs

            return ys, grad

        return tuple(computed(x1, x2, *self._side[0], *self._side[1]))  # type: ignore

    def backward(self, y1: Tensor, y2: Tensor) -> _Pair:
        """Return x1 and x2, for which :meth:`forward` gives `y1` and `y2`."""
        ys: _Pair = (y1, y2)
        for number in reversed(range(len(self._functions))):
            x2 = ys[1] - self._call(number, 1, ys[0], self._side)
            ys = ys[0] - self._call(number, 0, x2, self._side), x2
        return ys

    def _forward(self, xs: _Pair, sides: tuple[list, list]) -> _Pair:
        for number in range(len(self._functions)):
            y1 = xs[0] + self._call(number, 0, xs[1], sides)
            xs = y1, xs[1] + self._call(number, 1, y1, sides)
        return xs

    def _call(self, number: int, which: int, x: Tensor, sides: tuple[list, list]) -> Any:
        """f (`which` is 0) or g (1) of a layer."""
        function, side = self._functions[number][which], sides[which]
        if (number, which) not in self._scopes:
            with hf.variable_scope(self._scope, reuse=hf.AUTO_REUSE), \
                    hf.variable_scope(f"revlayer_{number}/{'fg'[which]}") as scope:
                self._scopes[number, which] = scope
        with hf.variable_scope(self._scopes[number, which]):
            return function(x, side) if side else function(x)

    def _gradients(self, ys: _Pair, upstream: Sequence[Any], sides: tuple[list, list],
                   variables: Sequence[Any]) -> list:
        """The gradients of x1, x2, what stands beside, and the variables."""
        gradients: list = list(upstream)
        with hf.control_dependencies(gradients):
            y1, y2 = (hf.stop_gradient(y) for y in ys)
            copies = tuple([hf.stop_gradient(x) for x in side] for side in sides)
        others = [*copies[0], *copies[1], *variables]
        totals: list = [[] for _ in others]

        def of(number: int, which: int, x: Tensor, above: Any) -> tuple[Any, Any]:
            """A function's value, and its gradient of its argument; adds to `totals`."""
            value = self._call(number, which, x, copies)  # type: ignore[arg-type]
            first, *rest = hf.gradients(value, [x, *others], above)
            for total, part in zip(totals, rest, strict=True):
                total.extend([] if part is None else [hf.convert_to_tensor(part)])
            return value, 0.0 if first is None else first

        for number in reversed(range(len(self._functions))):
            value, by_y1 = of(number, 1, y1, gradients[1])
            y2 = hf.stop_gradient(y2 - value)  # the x2 of this layer
            gradients[0] += by_y1
            value, by_x2 = of(number, 0, y2, gradients[0])
            gradients[1] += by_x2
            y1 = hf.stop_gradient(y1 - value)
        return [*gradients, *[hf.add_n(parts) if parts else None for parts in totals]]


def _each(function: Callable | Sequence[Callable], count: int) -> list:
    functions = [function] * count if callable(function) else list(function)
    if len(functions) != count:
        raise ValueError(f"expected a function for each of {count} layers, got {len(functions)}")
    return functions


def rev_block(x1: Tensor, x2: Tensor, f: Callable | Sequence[Callable],
              g: Callable | Sequence[Callable], num_layers: int = 1,
              f_side_input: Sequence[Tensor] | None = None,
              g_side_input: Sequence[Tensor] | None = None, is_training: bool = True) -> _Pair:
    """Return y1 and y2 of a :class:`RevBlock`, which keeps nothing where `is_training`."""
    block = RevBlock(f, g, num_layers, f_side_input, g_side_input, is_training)
    return block.forward(x1, x2)


def recompute_grad(fn: Callable | None = None, use_data_dep: Any = None,
                   tupleize_grads: bool = False) -> Callable:
    """Decorator: compute the function again for its gradient, instead of keeping its values.

    Args:
        fn: a function of tensors. Where it takes an argument ``is_recomputing``, that is False at
            first, and True for the gradient.
        use_data_dep, tupleize_grads: accepted; steps wait for the gradient in any case.

    Raises ``ValueError`` for a function that uses a tensor which is no argument, and where the
    gradient is built, if the function finds other variables than at first.
    """
    if fn is None:
        return functools.partial(recompute_grad, use_data_dep=use_data_dep,
                                 tupleize_grads=tupleize_grads)
    if any(isinstance(value, Tensor) for value in inspect.getclosurevars(fn).nonlocals.values()):
        raise ValueError(f"The function {fn} closes over a tensor; pass it as an argument.")
    parameters = inspect.signature(fn).parameters
    tells = "is_recomputing" in parameters or any(
        p.kind is p.VAR_KEYWORD for p in parameters.values())

    @functools.wraps(fn)
    def decorated(*args: Any) -> Any:
        found: list[set[str]] = []

        def once(*inputs: Any) -> Any:
            before = hf.get_default_graph().version
            result = fn(*inputs, **({"is_recomputing": bool(found)} if tells else {}))
            results, given = ([hf.convert_to_tensor(x) for x in nest.flatten(values)]
                              for values in (result, inputs))
            read = variables_read(results, given, before)
            found.append({variable.name for variable in read})
            if found[-1] != found[0]:
                raise ValueError(f"{fn.__name__} has the variables {sorted(found[0])}, but "
                                 f"computed again {sorted(found[-1])}: was it called twice in the "
                                 "same enclosing scope? Call it in a scope of its own each time.")
            return result

        return hf.recompute_grad(once)(*args)

    return decorated
