"""Functions of the graph that kernels call: each is compiled as a step of its own.

Most calls of functions are put in place when a step is compiled (`compiler.rewrite.inline`). What a
data set does with its elements cannot be: how often it is called, and when, is known to nobody.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

from hpcflow.compiler.emit.executable import Executable
from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.attr_values import Func
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.graph.operation import Dims
from hpcflow.ops.flow.functions import Body, body_for
from hpcflow.runtime.steps.compiled import LocalStep, StepOptions, compiled_form, make_parts
from hpcflow.runtime.steps.task import KernelContext, StepContext, function_calls


@function_calls.provide
class FunctionCalls:
    """The functions that the kernels of one session and task call.

    A function is compiled once for the types and shapes of its inputs.
    """

    def __init__(self, context: KernelContext, library: FunctionLibrary) -> None:
        self._context = context
        self._library = library
        self._made: dict[tuple, CompiledFunction] = {}
        self._lock = threading.RLock()

    def make(self, func: Func, dtypes: list[DType], dims: list[Dims]) -> CompiledFunction:
        """The function `func` for inputs of such types and shapes.

        Raises ``InvalidArgumentError`` if there is no such function, or it does not take these.
        """
        function = self._library.functions.get(func.name)
        if function is None:
            raise InvalidArgumentError(None, None, f"there is no function called '{func.name}'")
        key = (func.name, repr(sorted(func.attrs.items())), tuple(dtypes), tuple(dims))
        with self._lock:
            found = self._made.get(key)
            if found is None:
                try:
                    body = body_for(self._library, function, func.attrs, dtypes, dims)
                except ValueError as e:
                    raise InvalidArgumentError(None, None, f"function '{func.name}': {e}") from None
                found = self._made[key] = CompiledFunction(self, func.name, body)
            return found

    def compile(self, body: Body) -> tuple[LocalStep, _FunctionContext]:
        """The body as a step of this task."""
        task = self._context.task
        options = StepOptions()
        options.soft_placement = True
        options.equal_bits = self._context.equal_bits
        parts = make_parts([*body.outputs, *body.effects], body.inputs, task, task.device_infos(),
                           self._context, {}, options)
        context = _FunctionContext(self._context, self)
        executable = Executable(parts.get(task.name, []), task.name, task.by_name, context,
                                compiled_form(), len(body.outputs) + len(body.effects))
        names = [t.name for t in body.outputs] + [op.name for op in body.effects]
        return LocalStep(executable, names, len(body.inputs)), context


class _FunctionContext(StepContext):
    """A context of the kernels in a function: their state is that of this function, not of the
    session."""

    def __init__(self, session: KernelContext, calls: FunctionCalls) -> None:
        super().__init__(session, {}, "", None)
        self._own_calls = calls
        self._states: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.op_state = self._own_state

    def _calls(self) -> FunctionCalls:
        return self._own_calls

    def _own_state(self, name: str, create: Callable[[], Any]) -> Any:
        with self._lock:
            if name not in self._states:
                self._states[name] = create()
            return self._states[name]

    @property
    def has_state(self) -> bool:
        """True if some kernel keeps state."""
        return bool(self._states)


class CompiledFunction:
    """A function for some types and shapes; calling it with the values of its inputs runs it.

    Attributes:
        dtypes, dims: of its outputs.
        waits: a call may have to wait for other operations.
        has_state: calls go on in a sequence, of random numbers, say.
    """

    def __init__(self, calls: FunctionCalls, name: str, body: Body) -> None:
        self.name = name
        self._calls, self._body = calls, body
        self.dtypes = [t.dtype for t in body.outputs]
        self.dims = [t._dims for t in body.outputs]
        self._step, context = calls.compile(body)
        self.has_state = context.has_state
        self.waits = self._step.executable.direct is None
        self._count = len(body.outputs)
        self._call = self._step.run if self.waits or body.effects else self._plain()

    def _plain(self) -> Callable[[tuple], Any]:
        """The step without what only sessions need; the caller has silenced warnings of NumPy."""
        executable = self._step.executable
        function, order = executable.direct
        if function is None:
            return self._step.run
        item: Any = next(i for i in executable.items if i.region is not None)
        if item.region.has_loops:
            return self._step.run
        in_order = order == tuple(range(len(self._body.inputs)))

        def run(feeds: tuple) -> Any:
            try:
                return function(None, *feeds) if in_order else function(
                    None, *[feeds[i] for i in order])
            except BaseException as e:  # noqa: BLE001 - raised again, explained
                error = item.region.explain(e, item.nodes[0].device, None)
                raise error from error.__cause__

        return run

    def __call__(self, *inputs: Any) -> tuple:
        """The outputs. Raises what an operation of the function raises."""
        return tuple(self._call(inputs)[: self._count])

    def fresh(self) -> CompiledFunction:
        """The same function with a state of its own, whose calls are cancelled by themselves."""
        if self.has_state:
            return CompiledFunction(self._calls, self.name, self._body)
        other = copy.copy(self)
        step = self._step
        other._step = LocalStep(step.executable, step.names, step.feed_count)
        if self.waits:
            other._call = other._step.run
        return other

    def cancel(self) -> None:
        """Stop the calls that are under way."""
        self._step.running.cancel()
