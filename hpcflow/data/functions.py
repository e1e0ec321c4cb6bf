"""Functions of the user on elements, as functions of the graph."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.data.structure import Structure, as_tensors
from hpcflow.framework.function import DefinedFunction
from hpcflow.framework.function_graph import function_graph
from hpcflow.graph.attr_values import Func
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.operation import Tensor

if TYPE_CHECKING:
    from hpcflow.data.dataset import Dataset


class ElementFunction:
    """A function of elements, in the library of the current graph.

    Args:
        function: the user's; it is called once, here.
        structures: of its arguments. A tuple is unpacked where it is the only one.
        what: for the name in the library.
        reads_variables: as of ``DefinedFunction``, which has no seed of the graph then.

    Attributes:
        structure: of what it returns.
        func: what attributes of operations call it by.
        captured: tensors from outside that it reads: further inputs.
    """

    def __init__(self, function: Callable, structures: list[Structure], what: str,
                 reads_variables: bool = False) -> None:
        self._function, self._structures = function, structures
        self._is_legacy = reads_variables
        self.structure: Structure = Structure(())
        types = [t for s in structures for t in s.graph_types]
        # The name of the user's function is that of its part of the library.
        name = getattr(function, "__name__", type(function).__name__)

        def body(*tensors: Tensor) -> list[Tensor]:
            return self._body(list(tensors))

        body.__name__ = f"Dataset_{what}_{name}"
        self._defined = DefinedFunction(body, [], types, reads_variables=reads_variables)
        self._defined.add_to_graph(get_default_graph())
        self.func = Func(self._defined.name)
        self.captured = self._defined.captured_inputs

    def _body(self, tensors: list[Tensor]) -> list[Tensor]:
        arguments, first = [], 0
        for structure in self._structures:
            count = len(structure.leaves)
            arguments.append(structure.from_tensors(tensors[first : first + count]))
            first += count
        if len(arguments) == 1 and type(arguments[0]) is tuple:
            arguments = list(arguments[0])
        with contextlib.nullcontext() if self._is_legacy else _outer_seed(self._function):
            result = self._function(*arguments)
        if isinstance(result, list):
            result = tuple(result)  # of an operation with several outputs, most likely
        values = _values(result)
        self.structure = Structure.of_values(values)
        return self.structure.to_tensors(values)

    def inputs(self, name: str = "") -> dict[str, Any]:
        """The keywords of an operation that calls it."""
        if not name:
            return {"f": self.func, "other_arguments": self.captured}
        return {f"{name}_func": self.func, f"{name}_func_other_arguments": self.captured}


@contextlib.contextmanager
def _outer_seed(function: Callable) -> Iterator[None]:
    """Let the function that is being built have the seed of the graph around it, and warn if one
    of its operations then has no other."""
    graph = function_graph()
    assert graph is not None
    seed = graph.seed = graph.outer.seed
    yield
    if seed and graph.seed == seed and graph.seed_used:
        name = getattr(function, "__name__", type(function).__name__)
        warnings.warn(f"The function {name} draws random numbers by the seed {seed} of the graph "
                      "around it. Explicitly set the seed in the function if this is not the "
                      "intended behavior.", stacklevel=2)


def _values(result: Tensor | Dataset | Sequence[Any]) -> Any:
    try:
        return as_tensors(result)
    except (ValueError, TypeError) as e:
        raise TypeError(f"Unsupported return value from function passed to Dataset.map(): {result}."
                        ) from e


def is_variant_function(function: ElementFunction) -> bool:
    """True if the function returns one data set."""
    from hpcflow.data.structure import DatasetLeaf

    tree = function.structure.tree
    return isinstance(tree, DatasetLeaf) and not tree.shape.ndims


