"""lower: the program of a region as a flat list of lines over local names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    ENTER_TYPES,
    EXIT_TYPES,
    FETCH,
    SWITCH_TYPES,
    Node,
    Port,
    ref_inputs,
)
from hpcflow.compiler.regions.lines import (
    Assign,
    BeginLoop,
    Bound,
    Call,
    Else,
    EndIf,
    EndLoop,
    If,
    Item,
    KernelCall,
    Line,
    Next,
    Operator,
    Read,
    Until,
)
from hpcflow.compiler.regions.structure import Block, Branch, Copy, Loop, arrange
from hpcflow.errors import InvalidArgumentError
from hpcflow.host import memory
from hpcflow.kernels.registry import STEP

if TYPE_CHECKING:
    from hpcflow.resources.variables import VariableState

# Ops whose output is their first input.
ALIASES = frozenset({"Identity", "StopGradient", "PreventGradient", "_Send", "RefIdentity",
                     "LoopCond"})
NOTHING = frozenset({"NoOp", "_FetchOp", "ControlTrigger", "_SendControl", "_RecvControl"})
_ABSORBED_ALIASES = ENTER_TYPES | EXIT_TYPES | BACK_EDGE_TYPES


class Translation:
    """The lines of one region, as a program over local names.

    Names: ``a`` the region's inputs, ``v`` values, ``r`` values of variables, ``m`` moved values,
    ``x`` variables of loops and values of Merges (all local); ``c`` what is the same in every step,
    ``k`` kernels, ``t`` moves (global).
    """

    def __init__(self, nodes: list[Bound], known: dict[Port, Any],
                 wanted: list[Port | None]) -> None:
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
        self.lines: list[Line] = []
        self._places = {b.node: (i, b) for i, b in enumerate(nodes)}
        self._read_ports = {p for n in self.nodes for p in n.inputs}
        self._collect_inputs()
        self._block(arrange(self.nodes))
        self.shared = self._shared_names()
        self._drop_copies()

    # -------------------------------------------------------- names

    def _collect_inputs(self) -> None:
        inside = set(self.nodes)
        for node in self.nodes:
            for port in node.inputs:
                if port in self.names or port in self.known or port[0] in inside:
                    continue
                self.names[port] = f"a{len(self.inputs)}"
                self.inputs.append(port)

    def name(self, port: Port) -> str:
        """The name of a value."""
        name = self.names.get(port)
        if name is None:
            name = self.names[port] = self.add_global("c", self.known[port])
        return name

    def add_global(self, prefix: str, value: Any) -> str:
        """Add a global of a new name, which begins with `prefix`, and return the name."""
        name = f"{prefix}{len(self.globals)}"
        self.globals[name] = value
        return name

    # -------------------------------------------------------- control flow

    def _block(self, block: Block) -> None:
        for entry in block:
            if isinstance(entry, Copy):
                self._copy(*entry)
            elif isinstance(entry, Branch):
                self._branch(entry)
            elif isinstance(entry, Loop):
                self._loop(entry)
            elif entry.absorbed and entry.type != "LoopCond":
                self._alias(entry)
            else:
                self._translate(*self._places[entry])

    def _alias(self, node: Node) -> None:
        """Give the outputs of a control-flow node the name of its input."""
        if node.type in SWITCH_TYPES:
            self.names[(node, 0)] = self.names[(node, 1)] = self.name(node.inputs[0])
        elif node.type in _ABSORBED_ALIASES and node.inputs:
            self.names[(node, 0)] = self.name(node.inputs[0])

    def _copy(self, merge: Node, index: int) -> None:
        position = self._places[merge][0]
        self._assign(merge, [(f"x{position}", self.name(merge.inputs[index]))],
                     [(f"x{position}_1", np.int32(index))])

    def _assign(self, merge: Node, values: list[tuple[str, str]],
                positions: list[tuple[str, Any]]) -> None:
        """A line that sets Merges: their values, and which input came where that is asked for."""
        self.names[(merge, 0)], self.names[(merge, 1)] = values[0][0], positions[0][0]
        if (merge, 1) in self._read_ports:
            self.scalars.add(positions[0][0])
            values = [*values, *((t, self.add_global("c", v)) for t, v in positions)]
        if merge.dims[0] == ():
            self.scalars.add(values[0][0])
        self.lines.append(Assign(merge, [t for t, _ in values], [v for _, v in values]))

    def _branch(self, branch: Branch) -> None:
        predicate = self._predicate(branch.predicate, branch.switch)
        then, otherwise = branch.then, branch.otherwise
        self.lines.append(If(branch.switch, [], [predicate]))
        self._block(then)
        if otherwise:
            self.lines.append(Else(branch.switch, [], []))
            self._block(otherwise)
        self.lines.append(EndIf(branch.switch, [], []))

    def _predicate(self, port: Port, switch: Node) -> str:
        if port not in self.names and port not in self.known:
            port = switch.inputs[1]  # a copy of it, made outside the region
        name = self.name(port)
        node, index = port[0].inputs[0] if port[0].type == "LoopCond" else port
        if node.dims[index] == ():  # a LoopCond says so of whatever it is given
            return name
        checked = f"{name}_is"
        self.arguments[switch] = [self.name(switch.inputs[0]), name]
        self.lines.append(Call(switch, [checked], [name], function=self.add_global("t", _scalar)))
        self.scalars.add(checked)
        return checked

    def _loop(self, loop: Loop) -> None:
        start = BeginLoop(loop.condition, [], [])
        following: list[tuple[str, Port | None, str]] = []
        for merge, entering, next_port in loop.merges:
            target = f"x{self._places[merge][0]}"
            self.names[(merge, 0)] = target
            start.targets.append(target)
            start.arguments.append(self.name(entering))
            following.append((target, next_port, ""))
            if merge.dims[0] == ():
                self.scalars.add(target)
            if (merge, 1) in self._read_ports:
                following.append(self._count_position(merge, entering, start))
        self.lines.append(start)
        self._block(loop.before)
        predicate = self._predicate((loop.condition, 0), loop.condition)
        self.lines.append(Until(loop.condition, [], [predicate]))
        self._block(loop.body)
        step = Next(loop.condition, [], [])
        for target, port, name in following:
            value = name if port is None else self.name(port)
            if value != target:
                step.targets.append(target)
                step.arguments.append(value)
        self.lines += [step, EndLoop(loop.condition, [], [])]
        self._block(loop.after)
        for node in loop.exits:
            self._alias(node)

    def _count_position(self, merge: Node, entering: Port, start: BeginLoop) -> tuple:
        """Give output 1 of a Merge its values, the number of the input that came: that of the Enter
        first, then that of the other."""
        name = self.names[(merge, 1)] = f"{self.names[(merge, 0)]}_1"
        first = next(i for i, p in enumerate(merge.inputs) if p == entering)
        start.targets.append(name)
        start.arguments.append(self.add_global("c", np.int32(first)))
        self.scalars.add(name)
        return name, None, self.add_global("c", np.int32(1 - first))

    # -------------------------------------------------------- nodes

    def _translate(self, position: int, b: Bound) -> None:
        node = b.node
        if b.is_constant or node.type in NOTHING and b.function is None:
            return
        if node.type == "Const" and b.function is not None:  # one that waits for something
            self.names[(node, 0)] = self.add_global("c", b.function())
            return
        arguments = self._arguments(position, b)
        self.arguments[node] = arguments
        if b.function is None:  # an alias
            self.names[(node, 0)] = arguments[0]
            return
        if node.type == FETCH and _is_number(node):
            self.lines.append(Item(node, self._targets(position, b), arguments, b))
            return
        if _is_scalar_operator(b):
            self.lines.append(Operator(node, self._targets(position, b), arguments, b))
            return
        takes_step = b.kernel is not None and b.kernel.mode == STEP
        self.needs_step |= takes_step
        function = f"k{position}"
        self.globals[function] = b.function
        self.lines.append(KernelCall(node, self._targets(position, b), arguments, b,
                                     function=function, takes_step=takes_step))

    def _targets(self, position: int, b: Bound) -> list[str]:
        """The names of a node's outputs."""
        node, count = b.node, len(b.node.dtypes)
        targets = [f"v{position}" if count == 1 else f"v{position}_{i}" for i in range(count)]
        for i, name in enumerate(targets):
            self.names[(node, i)] = name
            if node.dims[i] == ():
                self.scalars.add(name)
            if b.fresh:
                self.fresh[name] = targets
        return targets

    def _arguments(self, position: int, b: Bound) -> list[str]:
        """Argument names; a variable read as a value is read on a line of its own."""
        node = b.node
        names = []
        for i, (port, is_ref) in enumerate(zip(node.inputs, input_refs(node), strict=True)):
            source, index = port
            name = self.name(port)
            if source.dtypes[index]._is_ref_dtype and not is_ref:
                name = self._read(f"r{position}_{i}", node, name, source.dims[index])
            if b.moves and b.moves[i] is not None:
                name = self._moved(name, b.moves[i], node)
            names.append(name)
        return names

    def _read(self, target: str, node: Node, state: str, dims: Sequence[int] | None) -> str:
        if dims == ():
            self.scalars.add(target)
        self.lines.append(Read(node, [target], [state]))
        return target

    def _moved(self, name: str, move: Callable, node: Node) -> str:
        """`name` after `move`: constants once and for all, others once per region."""
        key = (name, move)
        found = self.moved.get(key)
        if found is None:
            if name in self.globals:
                found = self.add_global("c", move(self.globals[name]))
            else:
                found = f"m{len(self.moved)}"
                self.lines.append(Call(node, [found], [name],
                                       function=self.add_global("t", move)))
            self.moved[key] = found
        return found

    # -------------------------------------------------------- memory

    def _shared_names(self) -> set[str]:
        """Names of values that some kernel may have made a view of, or kept."""
        shared: set[str] = set()
        for line in self.lines:
            if not (line.node.type == FETCH or line.bound is not None and (
                    line.bound.fresh or _keeps_nothing(line.bound))):
                shared.update(line.arguments)
        return shared

    def _drop_copies(self) -> None:
        """Fetch a value that nobody else holds as it is, without a copy."""
        wanted = [self.name(p) for p in self.outputs if p is not None]
        kept = []
        for line in self.lines:
            if line.node.type == FETCH and isinstance(line, KernelCall) and line.bound is not None:
                name = line.arguments[0]
                if self.is_own(name) and name not in wanted and bool(line.node.dims[0]):
                    self.names[(line.node, 0)] = name
                    wanted.append(name)
                    continue
                copied = line.bound.function
                if copied is not None and self._is_part_of_own(name) and name not in wanted:
                    line.function = self.add_global("f", _copied_if_view(copied))
                    wanted.append(name)
            kept.append(line)
        self.lines = kept

    def is_own(self, name: str) -> bool:
        """True if nothing else refers to the memory of a value."""
        return name not in self.shared and len(self.fresh.get(name, ())) == 1

    def _is_part_of_own(self, name: str) -> bool:
        """True for one of several results of a call, if nothing else refers to it."""
        return name not in self.shared and len(self.fresh.get(name, ())) > 1


def _keeps_nothing(b: Bound) -> bool:
    """True for an update: it copies what it is not told to take over."""
    return b.kernel is not None and b.kernel.takes_over is not None


def _copied_if_view(copied: Callable) -> Callable:
    """Return the function that makes a result for the client: it copies views, which other results
    may share."""

    def give(value: np.ndarray | np.generic | bytes) -> Any:
        is_whole = type(value) is np.ndarray and value.ndim and memory.owns_memory(value)
        return value if is_whole else copied(value)

    return give


def _is_scalar_operator(b: Bound) -> bool:
    """True if a Python operator on NumPy scalars may stand for the kernel."""
    return (isinstance(b.function, np.ufunc) and b.kernel is not None and bool(b.kernel.operator)
            and b.node.dims[0] == () and all([s.dims[i] == () for s, i in b.node.inputs]))


def _is_number(node: Node) -> bool:
    """True if the value that `node` fetches is surely a NumPy scalar or an array of rank 0."""
    dtype = node.dtypes[0]
    return node.dims[0] == () and dtype.name not in ("string", "resource", "variant")


def _uninitialized(state: VariableState) -> Exception:
    return state.uninitialized()


def _scalar(predicate: np.generic) -> Any:
    """The predicate of a Switch, whose shape was not known before."""
    if getattr(predicate, "ndim", 0):
        raise InvalidArgumentError(None, None, "The second input must be a scalar, but it has "
                                   f"shape {list(predicate.shape)}")
    return predicate


def input_refs(node: Node) -> list[bool]:
    """For each input, whether the kernel wants the variable itself."""
    flags = ref_inputs(node)
    return flags + [False] * (len(node.inputs) - len(flags))
