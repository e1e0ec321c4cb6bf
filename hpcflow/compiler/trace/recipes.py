"""What ops mean as values of a program: recipes of their own, or their kernels traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.bind import constant_value
from hpcflow.kernels.registry import Kernel, KernelNode, is_own
from hpcflow.loops import scores
from hpcflow.loops.form import Builder
from hpcflow.loops.tracing import Traced, TracedDevice, Tracer, UntraceableError

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})

#: ``recipe(builder, node, operands)``: the values of the outputs.
Recipe = Callable[[Builder, Node, Sequence[int]], list[int]]


def _add_n(b: Builder, node: Node, operands: Sequence[int]) -> list[int]:
    total = operands[0]
    for value in operands[1:]:
        total = b.apply("add", total, value)
    return [total]


def _select(b: Builder, node: Node, operands: Sequence[int]) -> list[int]:
    return [b.select(*operands)]


def _cast(b: Builder, node: Node, operands: Sequence[int]) -> list[int]:
    return [b.cast(operands[0], node.dtypes[0].base_dtype.name)]


#: Element-wise ops that are not traced.
ELEMENTWISE: dict[str, Recipe] = {
    "AddN": _add_n, "Select": _select, "SelectV2": _select, "Cast": _cast,
}


def traced(b: Builder, node: Node, kernel: Kernel, operands: Sequence[int],
           dims: list | None = None) -> list[int]:
    """The outputs of an element-wise op, by its kernel; `dims` are those of the inputs, if more is
    known than that of the node's.

    Raises :class:`UntraceableError` if the kernel does more than a program can.
    """
    tracer = Tracer(b)
    device = TracedDevice(tracer)
    inputs = [s.dtypes[i].base_dtype for s, i in node.inputs]
    seen = KernelNode(node.name, node.type, node.attrs, device, inputs, node.dtypes,
                      [s.dims[i] for s, i in node.inputs] if dims is None else dims, node.dims,
                      [constant_value(p) for p in node.inputs])
    try:
        result = kernel.factory(seen)(*[tracer.of(v) for v in operands])
    except UntraceableError:
        raise
    except Exception as e:  # whatever a kernel may ask of an array
        raise UntraceableError(f"{node.type}: {e}") from e
    found = list(result) if isinstance(result, tuple) else [result]
    if not all(isinstance(r, Traced) for r in found):
        raise UntraceableError(f"{node.type} gives a number")
    return [b.cast(r.number(), d.base_dtype.name) for r, d in zip(found, node.dtypes)]


def elementwise(b: Builder, node: Node, kernel: Kernel, operands: Sequence[int],
                dims: list | None = None) -> list[int]:
    """The outputs of an element-wise op, see `traced`; raises :class:`UntraceableError`."""
    recipe = ELEMENTWISE.get(node.type)
    if recipe is not None and is_own(kernel):
        return recipe(b, node, operands)
    return traced(b, node, kernel, operands, dims)


# ---------------------------------------------------------------- rows


def _of_scores(recipe: Callable[..., list[int]]) -> Recipe:
    return lambda b, node, operands: recipe(b, *operands)


class RowRecipe:
    """An op on the last axis: its recipe, and which inputs and outputs are numbers of rows."""

    def __init__(self, recipe: Recipe, row_inputs: tuple[int, ...] = (),
                 row_outputs: tuple[int, ...] = ()) -> None:
        self.recipe = recipe
        self.row_inputs = row_inputs
        self.row_outputs = row_outputs


ROW_OPS = {
    "Softmax": RowRecipe(_of_scores(scores.softmax)),
    "LogSoftmax": RowRecipe(_of_scores(scores.log_softmax)),
    "SoftmaxCrossEntropyWithLogits": RowRecipe(
        _of_scores(scores.cross_entropy), row_outputs=(0,)),
    "SparseSoftmaxCrossEntropyWithLogits": RowRecipe(
        _of_scores(scores.sparse_cross_entropy), (1,), (0,)),
}


# ---------------------------------------------------------------- reductions

REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min", "BiasAddGrad", "L2Loss"})


def reduced_axes(node: Node) -> tuple[int, ...] | None:
    """The axes that a reduction of the list above is over; None if they are not known to fit."""
    source, index = node.inputs[0]
    dims = source.dims[index]
    if dims is None:
        return None
    if node.type == "L2Loss":
        return tuple(range(len(dims)))
    if node.type == "BiasAddGrad":
        plain = node.attrs.get("data_format") != b"NCHW" or len(dims) < 3
        return tuple(range(len(dims) - 1)) if plain and len(dims) > 1 else None
    values = constant_value(node.inputs[1])
    if values is None:
        return None
    axes = sorted({int(a) + len(dims) if a < 0 else int(a) for a in np.reshape(values, -1)})
    fit = len(axes) == values.size and all(0 <= a < len(dims) for a in axes)
    return tuple(axes) if fit else None


def reduced_dims(node: Node) -> tuple[int | None, ...]:
    """The dimensions that such a reduction leaves: the graph may not know them where axes became
    known later."""
    source, index = node.inputs[0]
    axes, keeps = reduced_axes(node) or (), node.attrs.get("keep_dims", False)
    return tuple([1 if k in axes else d for k, d in enumerate(source.dims[index] or ())
                  if keeps or k not in axes])


def reduces(node: Node) -> bool:
    """True for a reduction of the list above, of a dtype that programs reduce."""
    name = node.dtypes[0].base_dtype.name
    wanted = _FLOATS if node.type in ("Mean", "L2Loss") else _FLOATS | {"int32", "int64"}
    return node.type in REDUCTIONS and name in wanted


def reduction(b: Builder, node: Node, value: int, size: Callable[[str], int], by_row: bool,
              by_columns: bool) -> int:
    """The reduction of numbers to one, in rows, columns or both; ``size(dtype)`` says of how
    many."""
    dtype = b.dtype(value)
    x = scores.wide(b, value)
    if node.type == "L2Loss":
        x = b.apply("square", x)
    name = {"Max": "max", "Min": "min"}.get(node.type, "sum")
    total = b.reduce_row(name, x) if by_row else x
    total = b.reduce_columns(name, total) if by_columns else total
    if node.type == "Mean":
        total = b.apply("divide", total, size(b.dtype(total)))
    if node.type == "L2Loss":
        total = b.apply("multiply", total, b.constant(0.5, b.dtype(total)))
    return b.cast(total, dtype)
