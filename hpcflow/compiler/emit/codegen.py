"""codegen: a region becomes one Python function over its kernels.

Every executor node is such a function, also a region of a single node, so that compiled and
node-by-node steps differ in nothing but the size of their nodes. ``structure`` puts the nodes in
the order of a program, ``translate`` makes lines of them, ``writer`` their text.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from hpcflow.compiler.device.launcher import DeviceLauncher
from hpcflow.compiler.emit.writer import write
from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.step_graph import Node, Port
from hpcflow.compiler.native.batch_iterations import compute_over_time
from hpcflow.compiler.native.concurrent_gemm import join
from hpcflow.compiler.native.launcher import HostLauncher
from hpcflow.compiler.native.native_loops import call_loops
from hpcflow.compiler.regions.lines import BeginLoop, Bound
from hpcflow.compiler.regions.lower import Translation
from hpcflow.compiler.trace.units import fuse
from hpcflow.host.tuning import compiler as tuning

_code_cache: dict[str, Any] = {}


class RegionFunction:
    """The generated function of a region.

    ``function(step, *inputs)`` returns a tuple with the values of ``outputs`` (None for None).
    """

    __slots__ = ("function", "inputs", "outputs", "nodes", "source", "needs_step", "filename",
                 "line_nodes", "arguments", "has_loops")  # fmt: skip

    def __init__(self, program: Translation) -> None:
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.nodes = program.nodes
        self.source, self.line_nodes = write(program)
        self.needs_step = program.needs_step
        self.has_loops = any(isinstance(line, BeginLoop) for line in program.lines)
        self.arguments = program.arguments
        self.function, self.filename = compile_source(self.source, program.globals)

    def explain(self, error: BaseException, where: str, rank: int | None) -> BaseException:
        """Return `error` as an ``OpError`` that names the op, its inputs and the user's line."""
        found = self._failing(error)
        return error if found is None else explain(error, *found, where, rank)

    def _failing(self, error: BaseException) -> tuple[Node, list] | None:
        """The node whose line raised `error`, and a summary of its inputs."""
        trace = error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            # Functions of equal source share their code; the globals are this function's own.
            if frame.f_globals is self.function.__globals__:  # type: ignore[attr-defined]
                node = self.line_nodes.get(trace.tb_lineno)
                if node is None:
                    return None
                scope = {**frame.f_globals, **frame.f_locals}
                names = self.arguments.get(node, ())
                return node, [summary(scope[n]) for n in names if n in scope]
            trace = trace.tb_next
        return None


def compile_source(source: str, scope: dict[str, Any]) -> tuple[Callable, str]:
    """The function ``region`` of `source` with the globals `scope`, and its file name.

    Code of equal source is compiled once.
    """
    filename = f"<hpcflow region {hash(source) & (1 << 64) - 1:016x}>"
    code = _code_cache.get(source)
    if code is None:
        if len(_code_cache) >= tuning.CODE_CACHE_MOST:
            _code_cache.clear()
        code = _code_cache[source] = compile(source, filename, "exec")
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(code, scope)
    return scope["region"], filename


def generate(nodes: list[Bound], known: dict[Port, Any], wanted: list[Port | None],
             device: Any = None) -> RegionFunction:
    """Generate the function of a region on `device`, whose nodes are in the order of execution.

    Raises ``structure.Unstructured`` if control flow is absorbed that has no form as a program.
    """
    program = Translation(nodes, known, wanted)
    compute_over_time(program)
    call_loops(program)
    join(program)
    if device is None or not device.has_own_memory:
        fuse(program, HostLauncher())
    elif getattr(device, "programs", None) is not None:
        fuse(program, DeviceLauncher(device))
    return RegionFunction(program)
