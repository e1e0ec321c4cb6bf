"""Functions of a state and an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.data import nest
from hpcflow.data.functions import ElementFunction
from hpcflow.data.structure import Structure, as_tensors, most_specific
from hpcflow.graph.likes import Nest
from hpcflow.graph.raw import raw_ops

if TYPE_CHECKING:
    from hpcflow.data.dataset import Dataset


def state_function(make: Callable[[Structure], ElementFunction], state: Structure,
                   part: Callable[[Structure], Structure]) -> tuple[ElementFunction, Structure]:
    """A function whose result has the structure of its state, and that structure.

    Shapes that change are not known: the function is made again for the looser ones.
    Raises ``TypeError`` if the state changes its types or classes.
    """
    while True:
        function = make(state)
        after = part(function.structure)
        for name in ("classes", "types"):
            before, now = getattr(state, name), getattr(after, name)
            nest.check_same(before, now)
            if nest.flatten(before) != nest.flatten(now):
                raise TypeError(f"The element {name} for the new state must match the initial "
                                f"state. Expected {before}; got {now}.")
        shapes = [most_specific(a.shape, b.shape)
                  for a, b in zip(state.leaves, after.leaves, strict=True)]
        if all(s._dims == leaf.shape._dims for s, leaf in zip(shapes, state.leaves, strict=True)):
            return function, state
        state = Structure(nest.pack_as(state.tree, [
            leaf.with_shape(s) for leaf, s in zip(state.leaves, shapes, strict=True)]))


def reduce(dataset: Dataset, initial_state: Nest, reduce_func: Callable) -> Any:
    """See ``Dataset.reduce``."""
    values = as_tensors(initial_state, "initial_state")

    def make(state: Structure) -> ElementFunction:
        return ElementFunction(reduce_func, [state, dataset._structure], "reduce")

    function, structure = state_function(make, Structure.of_values(values), lambda s: s)
    result = raw_ops.ReduceDataset(
        input_dataset=dataset._variant_tensor, initial_state=structure.to_tensors(values),
        **function.inputs(), **structure.attrs)
    result = list(result) if isinstance(result, (list, tuple)) else [result]
    return structure.from_tensors(result)
