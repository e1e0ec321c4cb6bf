"""codegen: a region becomes one straight-line Python function over its kernels.

Every executor node is such a function, also a region of a single node, so that compiled and
node-by-node steps differ in nothing but the size of their nodes.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.compiler.ir import Node
from hpcflow.compiler.place import ref_inputs
from hpcflow.errors import FailedPreconditionError, OpError, op_error
from hpcflow.kernels.registry import RESOURCE, STEP, Kernel

Port = tuple[Node, int]

# Ops whose output is their first input.
ALIASES = frozenset({"Identity", "StopGradient", "PreventGradient", "_Send", "RefIdentity"})
NOTHING = frozenset({"NoOp", "_FetchOp", "ControlTrigger", "_SendControl", "_RecvControl"})

# Overflow and invalid values are values (inf, nan), as on every device; NumPy's warnings about them
# would name lines of kernels.
REGION_MODULE = "hpcflow.region"
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"hpcflow\.")

_code_cache: dict[str, Any] = {}
_CODE_CACHE_LIMIT = 4096


class Bound:
    """A node with its kernel made for this step: the function, or the constant it stands for."""

    __slots__ = ("node", "kernel", "function", "constant", "is_constant")

    def __init__(self, node: Node, kernel: Kernel | None, function: Callable | None,
                 constant: Any = None, is_constant: bool = False) -> None:
        self.node = node
        self.kernel = kernel
        self.function = function
        self.constant = constant
        self.is_constant = is_constant


class RegionFunction:
    """The generated function of a region.

    ``function(step, *inputs)`` returns a tuple with the values of ``outputs``.
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
        self.function, self.filename = generator.compile()

    def explain(self, error: BaseException, where: str, rank: int | None) -> BaseException:
        """Return `error` as an ``OpError`` that names the op, its inputs and the user's line."""
        found = self._failing(error)
        if found is None:
            return error
        node, values = found
        return explain(error, node, values, where, rank)

    def _failing(self, error: BaseException) -> tuple[Node, list] | None:
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_name == "region" and code.co_filename == self.filename:
                node = self.line_nodes.get(trace.tb_lineno)
                if node is None:
                    return None
                names = self.arguments.get(node, ())
                scope = {**trace.tb_frame.f_globals, **trace.tb_frame.f_locals}
                # A code object may be shared; the globals are this function's own.
                if trace.tb_frame.f_globals is self.function.__globals__:
                    return node, [scope.get(n) for n in names]
            trace = trace.tb_next
        return None


def explain(error: BaseException, node: Node, values: list, where: str,
            rank: int | None = None) -> BaseException:
    """`error` of `node` on input `values`, as an ``OpError`` with op, shapes, device and line."""
    if not isinstance(error, Exception):
        return error
    if isinstance(error, OpError) and error.op is not None:
        return error
    kind, message = _classify(error)
    explained = op_error(kind, message, op=_NodeAsOp(node), device=where, rank=rank,
                         input_shapes=[describe_value(v) for v in values if v is not None])
    if node.op is not None:
        explained._op = node.op
    explained.__cause__ = None if isinstance(error, OpError) else error
    return explained


def _classify(error: Exception) -> tuple[type[OpError], str]:
    from hpcflow import errors

    if isinstance(error, OpError):
        return type(error), error.message
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        return errors.ResourceExhaustedError, f"Out of memory: {text}"
    if isinstance(error, NotImplementedError):
        return errors.UnimplementedError, text
    if isinstance(error, (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)):
        return errors.InvalidArgumentError, text
    if isinstance(error, FileNotFoundError):
        return errors.NotFoundError, text
    return errors.InternalError, f"{type(error).__name__}: {text}"


def describe_value(value: Any) -> str:
    """``float32[64,784]`` of a run-time value."""
    state = getattr(value, "value", None)
    if hasattr(value, "initialized"):
        if state is None:
            return f"{value.dtype.name} variable (uninitialized)"
        return f"{value.dtype.name}{list(state.shape)}".replace(" ", "")
    if isinstance(value, bytes):
        return "string[]"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        name = "string" if value.dtype.kind == "O" else dtypes.as_dtype(value.dtype).name
        return f"{name}{list(value.shape)}".replace(" ", "")
    return type(value).__name__


class _NodeAsOp:
    """The part of a node that messages show, under the names of an Operation."""

    def __init__(self, node: Node) -> None:
        self.name = node.op.name if node.op is not None else node.name
        self.type = node.type
        self.creation_site = node.creation_site


def uninitialized(node: Node, state: Any) -> FailedPreconditionError:
    """The error for reading a variable that has no value yet."""
    return op_error(FailedPreconditionError,
                    f"Attempting to use uninitialized value {state.name}", op=_NodeAsOp(node))


class _Generator:
    """Writes the source of one region."""

    def __init__(self, nodes: list[Bound], known: dict[Port, Any], wanted: list[Port]) -> None:
        self.bound = nodes
        self.nodes = [b.node for b in nodes]
        self.known = known  # ports whose value is fixed: constants and variable states
        self.outputs = wanted
        self.inputs: list[Port] = []
        self.names: dict[Port, str] = {}
        self.globals: dict[str, Any] = {"uninitialized": uninitialized, "__name__": REGION_MODULE}
        self.lines: list[str] = []
        self.line_nodes: dict[int, Node] = {}
        self.arguments: dict[Node, list[str]] = {}
        self.needs_step = False
        self.last_use = self._last_uses()
        self._collect_inputs()
        self._emit_all()
        self.source = self._assemble()

    # -------------------------------------------------------- liveness

    def _last_uses(self) -> dict[Port, int]:
        """Root port -> position of the last node that reads it (aliases counted to their root)."""
        self.root: dict[Port, Port] = {}
        last: dict[Port, int] = {}
        for position, b in enumerate(self.bound):
            for i, port in enumerate(b.node.inputs):
                last[self._root(port)] = position
                if self._is_alias(b) and i == 0:
                    self.root[(b.node, 0)] = self._root(port)
        for port in self.outputs:
            last[self._root(port)] = len(self.bound)
        return last

    def _root(self, port: Port) -> Port:
        return self.root.get(port, port)

    def _is_alias(self, b: Bound) -> bool:
        """Identity of a value; of a variable it is a read, which has a place in the order."""
        if b.node.type not in ALIASES or b.function is not None:
            return False
        source, index = b.node.inputs[0]
        return not source.dtypes[index]._is_ref_dtype or b.node.type == "RefIdentity"

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
        port = self._root(port)
        name = self.names.get(port)
        if name is None:
            name = f"c{len(self.globals)}"
            self.names[port] = name
            self.globals[name] = self.known[port]
        return name

    # -------------------------------------------------------- lines

    def _line(self, text: str, node: Node) -> None:
        self.lines.append(text)
        self.line_nodes[len(self.lines) + 1] = node  # line 1 is the def

    def _emit_all(self) -> None:
        for position, b in enumerate(self.bound):
            self._emit(position, b)
            self._release(position, b)

    def _emit(self, position: int, b: Bound) -> None:
        node = b.node
        if b.is_constant or node.type in NOTHING and b.function is None or self._is_alias(b):
            return
        arguments = self._arguments(position, b)
        if node.type in ALIASES and b.function is None:  # the read of a variable
            self.names[(node, 0)] = arguments[0]
            return
        if b.kernel is not None and b.kernel.mode == STEP:
            self.needs_step = True
            arguments = ["S", *arguments]
        function = f"k{position}"
        self.globals[function] = b.function
        call = f"{function}({', '.join([*arguments, *self._out(position, b)])})"
        self._assign(node, position, call)

    def _assign(self, node: Node, position: int, call: str) -> None:
        count = len(node.dtypes)
        if count == 0:
            self._line(call, node)
            return
        names = [f"v{position}" if count == 1 else f"v{position}_{i}" for i in range(count)]
        for i, name in enumerate(names):
            self.names[(node, i)] = name
        self._line(f"{', '.join(names)} = {call}", node)

    def _arguments(self, position: int, b: Bound) -> list[str]:
        """Argument names; a variable read as a value is read on a line of its own."""
        node = b.node
        names = []
        for i, (port, is_ref) in enumerate(zip(node.inputs, _input_refs(node), strict=True)):
            source, index = port
            if source.dtypes[index]._is_ref_dtype and not is_ref:
                names.append(self._read(position, i, node, port))
            else:
                names.append(self._name(port))
        self.arguments[node] = names
        return names

    def _read(self, position: int, index: int, node: Node, port: Port) -> str:
        state, value = self._name(port), f"r{position}_{index}"
        self._line(f"{value} = {state}.value", node)
        marker = f"n{position}"
        self.globals[marker] = node
        self._line(f"if {value} is None: raise uninitialized({marker}, {state})", node)
        return value

    def _out(self, position: int, b: Bound) -> list[str]:
        """``out=`` an input that ends here, where shape and dtype are the output's."""
        kernel, node = b.kernel, b.node
        if kernel is None or not (kernel.accepts_out and kernel.elementwise):
            return []
        for i, port in enumerate(node.inputs):
            if self._reusable(port, position) and _same_layout(node, i):
                return [f"out={self._name(port)}"]
        return []

    def _reusable(self, port: Port, position: int) -> bool:
        root = self._root(port)
        source = root[0]
        b = self._fresh.get(source)
        if b is None or self.last_use.get(root) != position or root in self.known:
            return False
        return root not in self._shared

    @property
    def _fresh(self) -> dict[Node, Bound]:
        """Nodes of this region whose outputs share memory with nothing else."""
        cached = getattr(self, "_fresh_nodes", None)
        if cached is None:
            cached = {b.node: b for b in self.bound
                      if b.kernel is not None and b.kernel.fresh and b.function is not None}
            self._fresh_nodes = cached
            self._shared = self._maybe_viewed()
        return cached

    def _maybe_viewed(self) -> set[Port]:
        """Ports that some kernel may have made a view of, or kept."""
        viewed: set[Port] = set()
        for b in self.bound:
            if b.function is None or b.kernel is None:
                if b.node.type == "_Send":
                    viewed.update(map(self._root, b.node.inputs))
                continue
            if not b.kernel.fresh:
                viewed.update(map(self._root, b.node.inputs))
        return viewed

    def _release(self, position: int, b: Bound) -> None:
        """Drop names after their last use: memory is freed, and variables become exclusive."""
        dead = []
        for port in {self._root(p) for p in b.node.inputs} | {
                (b.node, i) for i in range(len(b.node.dtypes))}:
            name = self.names.get(port)
            if name and name[0] in "va" and self.last_use.get(port, position) == position:
                dead.append(name)
        names = self.arguments.get(b.node, ())
        own = f"r{position}_"  # a read made for this node alone
        dead.extend(n for n in names if n.startswith(own) and not self._kept(b, n))
        for port in b.node.inputs:  # reads that became values
            root = self._root(port)
            name = self.names.get(root, "")
            if name[:1] == "r" and self.last_use.get(root, position) == position:
                dead.append(name)
        if dead:
            self._line(f"del {', '.join(sorted(set(dead)))}", b.node)

    def _kept(self, b: Bound, name: str) -> bool:
        port = (b.node, 0)
        return self.names.get(port) == name and self.last_use.get(port, -1) >= 0

    # -------------------------------------------------------- whole

    def _assemble(self) -> str:
        parameters = ["S"] + [self._name(p) for p in self.inputs]
        returned = [self._name(p) for p in self.outputs]
        body = [*self.lines, f"return ({', '.join(returned)}{',' if returned else ''})"]
        return f"def region({', '.join(parameters)}):\n" + "".join(f"    {s}\n" for s in body)

    def compile(self) -> tuple[Callable, str]:
        filename = f"<hpcflow region {abs(hash(self.source)):x}>"
        code = _code_cache.get(self.source)
        if code is None:
            if len(_code_cache) > _CODE_CACHE_LIMIT:
                _code_cache.clear()
            code = compile(self.source, filename, "exec")
            _code_cache[self.source] = code
            linecache.cache[filename] = (len(self.source), None,
                                         self.source.splitlines(True), filename)
        scope = self.globals
        exec(code, scope)
        return scope["region"], filename


def _input_refs(node: Node) -> list[bool]:
    flags = ref_inputs(node)
    if len(flags) < len(node.inputs):  # nodes that passes made
        flags = flags + [False] * (len(node.inputs) - len(flags))
    return flags


def _same_layout(node: Node, index: int) -> bool:
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


def generate(nodes: list[Bound], known: dict[Port, Any], wanted: list[Port]) -> RegionFunction:
    """Generate the function of a region whose nodes are in the order of execution."""
    return RegionFunction(_Generator(nodes, known, wanted))


def is_resource(b: Bound) -> bool:
    """True for a node whose output is the same object in every step."""
    return b.kernel is not None and b.kernel.mode == RESOURCE
