"""codegen: a region becomes one straight-line Python function over its kernels.

Every executor node is such a function, also a region of a single node, so that compiled and
node-by-node steps differ in nothing but the size of their nodes.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.explain import explain, summary
from hpcflow.compiler.ir import FETCH, Node, Port, ref_inputs
from hpcflow.kernels.registry import STEP, Kernel

# Ops whose output is their first input.
ALIASES = frozenset({"Identity", "StopGradient", "PreventGradient", "_Send", "RefIdentity",
                     "LoopCond"})
NOTHING = frozenset({"NoOp", "_FetchOp", "ControlTrigger", "_SendControl", "_RecvControl"})

_code_cache: dict[str, Any] = {}
_CODE_CACHE_LIMIT = 4096
_FOREVER = 1 << 62


class Bound:
    """A node with its kernel made for this step: the function, or the constant it stands for.

    `moves` holds per input the function that brings the value to where the kernel wants it, or
    None; it is empty where no input has to be moved. `fresh`: the outputs share memory with
    nothing else.
    """

    __slots__ = ("node", "kernel", "function", "constant", "is_constant", "moves", "fresh")

    def __init__(self, node: Node, kernel: Kernel | None, function: Callable | None,
                 constant: Any = None, is_constant: bool = False, moves: tuple = (),
                 fresh: bool = False) -> None:
        self.node = node
        self.kernel = kernel
        self.function = function
        self.constant = constant
        self.is_constant = is_constant
        self.moves = moves
        self.fresh = fresh


class RegionFunction:
    """The generated function of a region.

    ``function(step, *inputs)`` returns a tuple with the values of ``outputs`` (None for None).
    """

    __slots__ = ("function", "inputs", "outputs", "nodes", "source", "needs_step", "filename",
                 "line_nodes", "arguments")  # fmt: skip

    def __init__(self, generator: _Generator) -> None:
        self.inputs = generator.inputs
        self.outputs = generator.outputs
        self.nodes = generator.nodes
        self.source = generator.source
        self.needs_step = generator.needs_step
        self.line_nodes = generator.line_nodes
        self.arguments = generator.arguments
        self.function, self.filename = compile_source(self.source, generator.globals)

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
        if len(_code_cache) >= _CODE_CACHE_LIMIT:
            _code_cache.clear()
        code = _code_cache[source] = compile(source, filename, "exec")
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(code, scope)
    return scope["region"], filename


class _Line:
    """One statement: ``targets = function(arguments)``, or the read of a variable."""

    __slots__ = ("node", "targets", "function", "arguments", "bound")

    def __init__(self, node: Node, targets: list[str], function: str, arguments: list[str],
                 bound: Bound | None = None) -> None:
        self.node = node
        self.targets = targets
        self.function = function  # a global's name, or one of the forms below
        self.arguments = arguments
        self.bound = bound


_READ, _ITEM, _OPERATOR = "<read>", "<item>", "<operator>"


class _Generator:
    """Writes the source of one region.

    Names: ``a`` the region's inputs, ``v`` values, ``r`` values of variables, ``m`` moved values
    (all local); ``c`` what is the same in every step, ``k`` kernels, ``t`` moves (global).
    """

    def __init__(self, nodes: list[Bound], known: dict[Port, Any],
                 wanted: list[Port | None]) -> None:
        self.bound = nodes
        self.nodes = [b.node for b in nodes]
        self.known = known  # ports whose value is fixed: constants and variable states
        self.outputs = wanted
        self.inputs: list[Port] = []
        self.names: dict[Port, str] = {}
        self.moved: dict[tuple[str, Any], str] = {}
        self.fresh: dict[str, list[str]] = {}  # name -> the outputs of the same call
        self.scalars: set[str] = set()  # names of values that are not worth a del
        self.globals: dict[str, Any] = {"uninitialized": _uninitialized}
        self.arguments: dict[Node, list[str]] = {}
        self.needs_step = False
        self._collect_inputs()
        self.lines: list[_Line] = []
        for position, b in enumerate(self.bound):
            self._translate(position, b)
        self.shared = self._shared_names()
        self._drop_copies()
        self.last_use = self._last_uses()
        self.line_nodes: dict[int, Node] = {}
        self.source = self._write()

    # -------------------------------------------------------- names

    def _collect_inputs(self) -> None:
        inside = set(self.nodes)
        for node in self.nodes:
            for port in node.inputs:
                if port in self.names or port in self.known or port[0] in inside:
                    continue
                self.names[port] = f"a{len(self.inputs)}"
                self.inputs.append(port)

    def _name(self, port: Port) -> str:
        name = self.names.get(port)
        if name is None:
            name = self.names[port] = self._global("c", self.known[port])
        return name

    def _global(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self.globals)}"
        self.globals[name] = value
        return name

    # -------------------------------------------------------- translation

    def _translate(self, position: int, b: Bound) -> None:
        node = b.node
        if b.is_constant or node.type in NOTHING and b.function is None:
            return
        arguments = self._arguments(position, b)
        self.arguments[node] = arguments
        if b.function is None:  # an alias
            self.names[(node, 0)] = arguments[0]
            return
        if node.type == FETCH and _is_number(node):
            self._call(position, b, _ITEM, arguments)
            return
        if _is_scalar_operator(b):
            self._call(position, b, _OPERATOR, arguments)
            return
        if b.kernel is not None and b.kernel.mode == STEP:
            self.needs_step = True
            arguments = ["S", *arguments]
        function = f"k{position}"
        self.globals[function] = b.function
        self._call(position, b, function, arguments)

    def _call(self, position: int, b: Bound, function: str, arguments: list[str]) -> None:
        node, count = b.node, len(b.node.dtypes)
        targets = [f"v{position}" if count == 1 else f"v{position}_{i}" for i in range(count)]
        for i, name in enumerate(targets):
            self.names[(node, i)] = name
            if node.dims[i] == ():
                self.scalars.add(name)
            if b.fresh:
                self.fresh[name] = targets
        self.lines.append(_Line(node, targets, function, arguments, b))

    def _arguments(self, position: int, b: Bound) -> list[str]:
        """Argument names; a variable read as a value is read on a line of its own."""
        node = b.node
        names = []
        for i, (port, is_ref) in enumerate(zip(node.inputs, input_refs(node), strict=True)):
            source, index = port
            name = self._name(port)
            if source.dtypes[index]._is_ref_dtype and not is_ref:
                name = self._read(f"r{position}_{i}", node, name, source.dims[index])
            if b.moves and b.moves[i] is not None:
                name = self._moved(name, b.moves[i], node)
            names.append(name)
        return names

    def _read(self, target: str, node: Node, state: str, dims: Any) -> str:
        if dims == ():
            self.scalars.add(target)
        self.lines.append(_Line(node, [target], _READ, [state]))
        return target

    def _moved(self, name: str, move: Callable, node: Node) -> str:
        """`name` after `move`: constants once and for all, others once per region."""
        key = (name, move)
        found = self.moved.get(key)
        if found is None:
            if name in self.globals:
                found = self._global("c", move(self.globals[name]))
            else:
                found = f"m{len(self.moved)}"
                self.lines.append(_Line(node, [found], self._global("t", move), [name]))
            self.moved[key] = found
        return found

    # -------------------------------------------------------- memory

    def _shared_names(self) -> set[str]:
        """Names of values that some kernel may have made a view of, or kept."""
        shared: set[str] = set()
        for line in self.lines:
            if not (line.node.type == FETCH or line.bound is not None and line.bound.fresh):
                shared.update(line.arguments)
        return shared

    def _drop_copies(self) -> None:
        """A value that nobody else holds is fetched as it is."""
        wanted = [self._name(p) for p in self.outputs if p is not None]
        kept = []
        for line in self.lines:
            if line.node.type == FETCH and line.bound is not None and line.function != _ITEM:
                name = line.arguments[0]
                if self._is_own(name) and name not in wanted and _is_array(line.node):
                    self.names[(line.node, 0)] = name
                    wanted.append(name)
                    continue
            kept.append(line)
        self.lines = kept

    def _is_own(self, name: str) -> bool:
        return name not in self.shared and len(self.fresh.get(name, ())) == 1

    def _last_uses(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for i, line in enumerate(self.lines):
            for name in line.arguments:
                last[name] = i
        for port in self.outputs:
            if port is not None:
                last[self._name(port)] = _FOREVER
        return last

    def _out(self, index: int, line: _Line) -> str | None:
        """The argument that the result may overwrite: one that ends here, of the same layout."""
        b = line.bound
        if b is None or b.kernel is None or not (b.kernel.accepts_out and b.kernel.elementwise):
            return None
        arguments = self.arguments[line.node]
        for i, name in enumerate(arguments):
            if self._is_own(name) and self.last_use[name] == index and same_layout(line.node, i):
                return name
        return None

    # -------------------------------------------------------- text

    def _write(self) -> str:
        parameters = ["S", *(self._name(p) for p in self.inputs)]
        text = [f"def region({', '.join(parameters)}):"]
        for index, line in enumerate(self.lines):
            for statement in [*self._statements(index, line), *self._release(index, line)]:
                text.append(f"    {statement}")
                self.line_nodes[len(text)] = line.node
        returned = ["None" if p is None else self._name(p) for p in self.outputs]
        text.append(f"    return ({', '.join(returned)}{',' if returned else ''})")
        return "\n".join(text) + "\n"

    def _statements(self, index: int, line: _Line) -> list[str]:
        targets, arguments = ", ".join(line.targets), line.arguments
        if line.function == _READ:
            return [f"{targets} = {arguments[0]}.value",
                    f"if {targets} is None: raise uninitialized({arguments[0]})"]
        if line.function == _ITEM:
            return [f"{targets} = {arguments[0]}[()]"]
        if line.function == _OPERATOR:
            sign = line.bound.kernel.operator  # type: ignore[union-attr]
            return [f"{targets} = {f' {sign} '.join(arguments)}" if len(arguments) > 1
                    else f"{targets} = {sign}{arguments[0]}"]
        out = self._out(index, line)
        given = ", ".join(arguments if out is None else [*arguments, f"out={out}"])
        call = f"{line.function}({given})"
        return [f"{targets} = {call}" if targets else call]

    def _release(self, index: int, line: _Line) -> list[str]:
        """Drop values after their last use: memory is freed, and variables become exclusive."""
        if index + 1 == len(self.lines):
            return []
        names = [n for n in dict.fromkeys([*line.arguments, *line.targets])
                 if n[0] in "vrm" and n not in self.scalars and self.last_use.get(n, -1) <= index]
        return [f"del {', '.join(names)}"] if names else []


def _is_scalar_operator(b: Bound) -> bool:
    """True if a Python operator on NumPy scalars may stand for the kernel."""
    return (isinstance(b.function, np.ufunc) and b.kernel is not None and bool(b.kernel.operator)
            and b.node.dims[0] == () and all([s.dims[i] == () for s, i in b.node.inputs]))


def _uninitialized(state: Any) -> Exception:
    return state.uninitialized()


def _is_number(node: Node) -> bool:
    """True if the value that `node` fetches is surely a NumPy scalar or an array of rank 0."""
    dtype = node.dtypes[0]
    return node.dims[0] == () and dtype.name not in ("string", "resource", "variant")


def _is_array(node: Node) -> bool:
    return bool(node.dims[0])


def input_refs(node: Node) -> list[bool]:
    """For each input, whether the kernel wants the variable itself."""
    flags = ref_inputs(node)
    return flags + [False] * (len(node.inputs) - len(flags))


def same_layout(node: Node, index: int) -> bool:
    """True if input `index` surely has the shape and dtype of the output, and is an array."""
    source, port = node.inputs[index]
    dims, out = source.dims[port], node.dims[0]
    if not dims or out is None or source.dtypes[port].base_dtype is not node.dtypes[0].base_dtype:
        return False
    if len(dims) != len(out):
        return False
    if len(node.inputs) == 1 or None not in dims and dims == out:
        return True
    others = [s.dims[i] for k, (s, i) in enumerate(node.inputs) if k != index]
    return all(_broadcasts_into(o, dims) for o in others)


def _broadcasts_into(dims: tuple | None, target: tuple) -> bool:
    """True if `dims` broadcasts to `target` whatever its unknown dimensions are."""
    if dims is None or len(dims) > len(target):
        return False
    tail = target[len(target) - len(dims):]
    return all(d == 1 or (d is not None and d == t) for d, t in zip(dims, tail, strict=True))


def generate(nodes: list[Bound], known: dict[Port, Any],
             wanted: list[Port | None]) -> RegionFunction:
    """Generate the function of a region whose nodes are in the order of execution."""
    return RegionFunction(_Generator(nodes, known, wanted))
