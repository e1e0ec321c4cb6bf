"""writer: the text of a region's function, with the life of its values.

Values are dropped after their last use; an element-wise kernel writes into an argument that ends
there, and an assignment keeps it. In a loop, what comes from outside ends with the loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.lines import (
    Assign,
    Attempt,
    BeginLoop,
    Call,
    Closing,
    Else,
    EndAttempt,
    EndIf,
    EndLoop,
    If,
    Item,
    Line,
    Next,
    Opening,
    Operator,
    Read,
    Structure,
    Until,
    given,
)
from hpcflow.compiler.regions.lower import Translation
from hpcflow.host.tuning import compiler as tuning

if TYPE_CHECKING:
    from hpcflow.runtime.executor.deadline import DirectRun
    from hpcflow.runtime.executor.executor import Step

_FOREVER = 1 << 62


def write(program: Translation) -> tuple[str, dict[int, Node]]:
    """The source of ``region(S, ...)``, and the node of each of its lines."""
    writer = _Writer(program)
    return writer.write(), writer.line_nodes


class Lives:
    """Where each name is used last (``last``), and after which line it may be dropped."""

    def __init__(self, program: Translation) -> None:
        self.lines = program.lines
        self.last: dict[str, int] = {}
        self.dropped: dict[int, list[str]] = {}
        self._defined: dict[str, tuple[int, ...]] = {}
        self._inside: list[tuple[int, ...]] = []  # per line the blocks it is in, by their start
        self.ends: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self._find_blocks()
        self._follow(program)

    def _find_blocks(self) -> None:
        blocks: list[int] = []
        for i, line in enumerate(self.lines):
            if isinstance(line, Closing):
                self.starts[i] = blocks.pop()
                self.ends[self.starts[i]] = i
            self._inside.append(tuple(blocks))
            for name in line.targets:
                if isinstance(line, EndAttempt):  # both ways make these
                    self._defined[name] = tuple(blocks)
                else:
                    self._defined.setdefault(name, tuple(blocks))
            if isinstance(line, Opening):
                blocks.append(i)

    def _follow(self, program: Translation) -> None:
        drops: dict[str, int] = {}
        for i, line in enumerate(self.lines):
            for name in line.arguments:
                self.last[name] = self._end_of_use(name, i, loops_only=True)
                drops[name] = max(drops.get(name, 0), self._end_of_use(name, i, loops_only=False))
            if not isinstance(line, Structure):
                for name in line.targets:
                    drops.setdefault(name, i)
        for port in program.outputs:
            if port is not None:
                self.last[program.name(port)] = drops[program.name(port)] = _FOREVER
        for name, i in drops.items():
            if name in self._defined and name not in program.scalars:
                self.dropped.setdefault(i, []).append(name)

    def _end_of_use(self, name: str, index: int, loops_only: bool) -> int:
        """Return the line after which a value may be dropped: `index`, or the end of the outermost
        block around it that did not make the value.

        What was made in another branch (of the same predicate) does not exist at the end of this.
        """
        made_in = self._defined.get(name, ())
        loops_only = loops_only or any(s not in self._inside[index] for s in made_in)
        for start in self._inside[index]:
            if start not in made_in and (
                    not loops_only or isinstance(self.lines[start], BeginLoop)):
                return self.ends[start]
        return index


class _Writer:
    def __init__(self, program: Translation) -> None:
        self.program = program
        self.lives = Lives(program)
        self.text: list[str] = []
        self.line_nodes: dict[int, Node] = {}
        self.depth = 1

    def write(self) -> str:
        program = self.program
        if any(isinstance(line, BeginLoop) for line in program.lines):
            program.globals["look"] = _look
        parameters = ["S", *(program.name(p) for p in program.inputs)]
        self.text.append(f"def region({', '.join(parameters)}):")
        for index, line in enumerate(program.lines):
            self._line(index, line)
        returned = ["None" if p is None else program.name(p) for p in program.outputs]
        self.text.append(f"    return ({', '.join(returned)}{',' if returned else ''})")
        return "\n".join(self.text) + "\n"

    def _put(self, node: Node, *statements: str) -> None:
        for statement in statements:
            self.text.append("    " * self.depth + statement)
            self.line_nodes[len(self.text)] = node

    def _line(self, index: int, line: Line) -> None:
        if isinstance(line, Structure):
            self._structure(index, line)
            return
        self._put(line.node, *self._statements(index, line))
        if index + 1 < len(self.program.lines):
            self._drop(index, line.node)

    def _drop(self, index: int, node: Node) -> None:
        """Delete the names that are used last in this line: memory is freed, and variables become
        exclusive."""
        names = self.lives.dropped.get(index)
        if names:
            self._put(node, f"del {', '.join(dict.fromkeys(names))}")

    # -------------------------------------------------------- statements

    def _statements(self, index: int, line: Line) -> list[str]:
        targets, arguments = ", ".join(line.targets), line.arguments
        match line:
            case Read():
                return [f"{targets} = {arguments[0]}.value",
                        f"if {targets} is None: raise uninitialized({arguments[0]})"]
            case Item():
                return [f"{targets} = {arguments[0]}[()]"]
            case Operator():
                return [f"{targets} = {line.expression()}"]
            case Call():
                call = f"{line.function}({', '.join([*given(line), *self._options(index, line)])})"
                return [f"{targets} = {call}" if targets else call]
        raise TypeError(f"no statement of {type(line).__name__}")

    def _options(self, index: int, line: Call) -> list[str]:
        """The keyword arguments of a kernel that may overwrite or keep what it is given."""
        out = self._out(index, line)
        options = [] if out is None else [f"out={out}"]
        return [*options, "own=True"] if self._gives_away(index, line) else options

    def _out(self, index: int, line: Line) -> str | None:
        """The argument that the result may overwrite: one that ends here, of the same layout."""
        b = line.bound
        if b is None or b.kernel is None or not (b.kernel.accepts_out and b.kernel.elementwise):
            return None
        for i, name in enumerate(self.program.arguments[line.node]):
            if self._ends(name, index) and same_layout(line.node, i):
                return name
        return None

    def _gives_away(self, index: int, line: Line) -> bool:
        """True if the kernel may keep an argument, which nobody else refers to or will read."""
        kernel = line.bound.kernel if line.bound is not None else None
        if kernel is None or kernel.takes_over is None:
            return False
        return self._ends(self.program.arguments[line.node][kernel.takes_over], index)

    def _ends(self, name: str, index: int) -> bool:
        """True for a value whose memory nobody refers to after this line."""
        return self.program.is_own(name) and self.lives.last[name] == index

    # -------------------------------------------------------- control flow

    def _structure(self, index: int, line: Line) -> None:
        node = line.node
        match line:
            case Assign():
                self._put(node, _assignment(line))
                self._drop(index, node)
            case If():
                self._put(node, f"if {line.arguments[0]}:")
                self.depth += 1
                self._put_pass(index, node)
            case Else():
                self.depth -= 1
                self._put(node, "else:")
                self.depth += 1
                self._put_pass(index, node)
            case EndIf():
                self.depth -= 1
                self._drop(index, node)
            case Attempt():
                self._attempt(index, line)
            case EndAttempt():
                self.depth -= 1
                made = f"w{self.lives.starts[index]}"
                self._put(node, f"else: {', '.join(line.targets)}, = {made}", f"del {made}")
                self._drop(index, node)
            case _:
                self._loop_line(index, line)

    def _attempt(self, index: int, line: Attempt) -> None:
        end = self.lives.ends[index]
        self.program.globals[line.function].reuse(
            {a for a in line.arguments
             if self.program.is_own(a) and self.lives.last[a] <= end})
        self._put(line.node, f"w{index} = {line.function}({', '.join(given(line))})",
                  f"if w{index} is None:")
        self.depth += 1

    def _put_pass(self, index: int, node: Node) -> None:
        if isinstance(self.program.lines[index + 1], (Else, EndIf)):
            self._put(node, "pass")

    def _loop_line(self, index: int, line: Line) -> None:
        """A block of iterations, after which somebody may want the loop to stop."""
        node = line.node
        match line:
            case BeginLoop():
                self._put(node, _assignment(line))
                self._drop(index, node)
                self._put(node, f"n{index}, s{index} = 1, 0.0", "while True:")
                self._put(node, f"    for _ in range(n{index}):")
                self.depth += 2
            case Until():
                self._put(node, f"if not {line.arguments[0]}: break")
            case Next():
                if line.targets:
                    self._put(node, _assignment(line))
                    self._drop(index, node)
            case EndLoop():
                start = self.lives.starts[index]
                self.depth -= 1
                self._put(node, "else:", f"    n{start}, s{start} = look(S, n{start}, s{start})",
                          "    continue", "break")
                self.depth -= 1
                self._drop(index, node)


def _assignment(line: Line) -> str:
    return f"{', '.join(line.targets)} = {', '.join(line.arguments)}"


def _look(step: DirectRun | Step, count: int, since: float) -> tuple[int, float]:
    """Raise the error that stops a step; return how many iterations to run until the next look."""
    if step is None:
        return tuning.LOOP_MOST_ITERATIONS, since
    step.check()
    now = time.monotonic()
    if not since or now - since < tuning.LOOP_LOOK_SECONDS:
        count = min(2 * count, tuning.LOOP_MOST_ITERATIONS)
    elif now - since > 4 * tuning.LOOP_LOOK_SECONDS and count > 1:
        count //= 2
    return count, now


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
