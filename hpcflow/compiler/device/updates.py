"""Dense updates of variables (``Apply*``) as programs that change them in place.

The arithmetic is that of `hpcflow.kernels.training`, whose rules are run over values of a program
instead of arrays.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.regions.bind import constant_value
from hpcflow.compiler.regions.lines import Line
from hpcflow.compiler.trace.groups import uniform
from hpcflow.compiler.trace.views import Dims
from hpcflow.kernels.registry import KernelNode, is_own
from hpcflow.kernels.training.training import DenseForm, dense_form
from hpcflow.loops.form import DENSE, ONE, Builder, Program
from hpcflow.loops.meanings import FLOATS
from hpcflow.loops.tracing import Traced, Tracer, UntraceableError


class BuiltUpdate(NamedTuple):
    """An update as a program over all elements of a variable.

    Attributes:
        program: its arrays are the states, the gradient, then the scalars on the device.
        states, gradient, scalars: names in the line's program.
        dims: of the variable.
        rows: its elements.
    """

    program: Program
    states: list[str]
    gradient: str
    scalars: list[str]
    dims: Dims
    rows: int


def built_update(line: Line) -> BuiltUpdate | None:
    """The program of a line, if it is a dense update that can be one."""
    b, node = line.bound, line.node
    form = dense_form(node.type)
    if form is None or b is None or b.kernel is None or not is_own(b.kernel):
        return None
    states = form.update.states
    source, index = node.inputs[form.gradient]
    dims, dtype = source.dims[index], source.dtypes[index].base_dtype.name
    if dims is None or None in dims or 0 in dims or dtype not in FLOATS:
        return None
    if any(s.dims[i] != () for k, (s, i) in enumerate(node.inputs)
           if k >= states and k != form.gradient):
        return None
    try:
        return _build(line, form, dims, dtype)
    except UntraceableError:
        return None


def _build(line: Line, form: DenseForm, dims: Dims, dtype: str) -> BuiltUpdate:
    node, names = line.node, line.arguments
    builder = Builder(1)
    tracer = Tracer(builder)
    count = form.update.states
    arrays = [builder.array(dtype) for _ in range(count + 1)]
    blocks = [tracer.of(builder.load(a, DENSE)) for a in arrays]
    scalars: list[Any] = []
    on_device: list[str] = []
    host = line.bound.kernel.host_inputs if line.bound and line.bound.kernel else ()
    for i in form.scalars:
        port = node.inputs[i]
        number = uniform(constant_value(port))
        type_ = port[0].dtypes[port[1]].base_dtype
        if number is not None:
            scalars.append(type_.np.type(number) if type_.name != "bfloat16"
                           else np.asarray(number, type_.np)[()])
        elif i in host:
            raise UntraceableError("needs the number on the host")
        else:
            on_device.append(names[i])
            scalars.append(tracer.of(builder.load(builder.array(type_.name), ONE)))
    _trace(node, form, tracer, blocks, scalars)
    for array, block in zip(arrays, blocks[:count]):
        builder.store(array, DENSE, block.number())
    size = math.prod(dims)  # type: ignore[arg-type]
    return BuiltUpdate(builder.program(), names[:count], names[form.gradient], on_device, dims,
                       size)


def _trace(node: Any, form: DenseForm, tracer: Tracer, blocks: list[Traced],
           scalars: list[Any]) -> None:
    update = form.update
    seen = KernelNode(node.name, node.type, node.attrs, None, [], node.dtypes, [], node.dims, [])
    rule = update.rule_of(seen)
    try:
        if update.prepare is not None:
            scalars = list(update.prepare(_NumbersToo(tracer), *scalars))
        if update.choose is not None:
            rule = update.choose(rule, tuple(scalars))
        scratch = [tracer.empty_like(blocks[0]) for _ in range(update.scratch)]
        rule(tracer, blocks, tuple(scalars), scratch)
    except UntraceableError:
        raise
    except Exception as e:  # whatever a rule may ask of an array
        raise UntraceableError(f"{node.type}: {e}") from e


class _NumbersToo:
    """The array module for scalars, of which some are known: these are computed at once."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._call, name)

    def _call(self, name: str, *given: Any) -> Any:
        module: Any = self._tracer if any(isinstance(g, Traced) for g in given) else np
        return getattr(module, name)(*given)
