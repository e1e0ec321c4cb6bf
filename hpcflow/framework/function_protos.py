"""Functions of graphs, read from the protobufs in which graphs carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcflow.dtypes import as_dtype
from hpcflow.framework.function import DefinedFunction
from hpcflow.ops.flow.functions import Function

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["from_definition", "from_library"]


def from_definition(definition: Message, grad_func: DefinedFunction | None = None
                    ) -> DefinedFunction:
    """Return the function of a ``FunctionDef``, whose gradient is the function `grad_func`.

    What the original captured are arguments of the result like the others.
    """
    signature = definition.signature
    types = [as_dtype(a.type) for a in signature.input_arg]
    made = DefinedFunction(_made_already, [a.name for a in signature.input_arg], types,
                           signature.name, grad_func,
                           out_names=[a.name for a in signature.output_arg])
    made._function = Function(definition, made.grad_func_name)
    return made


def _made_already(*args: object) -> None:
    raise AssertionError("the body of a function that was read is not built again")


def from_library(library: Message) -> list[DefinedFunction]:
    """Return the functions of a ``FunctionDefLibrary``, with their gradients.

    Raises ``ValueError`` if a gradient is told of a function or by a function that is not in the
    library, or if gradients make a circle.
    """
    definitions = {f.signature.name: f for f in library.function}
    gradients = {g.function_name: g.gradient_func for g in library.gradient}
    for name in (*gradients, *gradients.values()):
        if name not in definitions:
            raise ValueError(f"FunctionDefLibrary missing '{name}' FunctionDef")
    made: dict[str, DefinedFunction] = {}
    for name in definitions:
        chain = _chain(name, gradients)
        for link in reversed(chain):
            if link not in made:
                gradient = made[gradients[link]] if link in gradients else None
                made[link] = from_definition(definitions[link], gradient)
    return list(made.values())


def _chain(name: str, gradients: dict[str, str]) -> list[str]:
    """A function, its gradient, the gradient of that, and so on."""
    chain = [name]
    while chain[-1] in gradients:
        following = gradients[chain[-1]]
        if following in chain:
            raise ValueError("FunctionDefLibrary contains cyclic gradient functions! "
                             f"{' -> '.join([*chain, following])}")
        chain.append(following)
    return chain
