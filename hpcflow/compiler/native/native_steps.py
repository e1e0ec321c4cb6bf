"""native_steps: the lines of a loop as steps, in the form that native calls are made from.

See ``native_loops``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hpcflow.compiler.native.accumulate_gemm import AddToSums
from hpcflow.compiler.native.batch_iterations import assigned, is_call
from hpcflow.compiler.regions.lines import Assign, Call, Line, Next, Operator, Structure, Until
from hpcflow.compiler.regions.lower import Translation
from hpcflow.compiler.trace.views import views_of
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops.over_time import require

_POPS = frozenset({"StackPop", "StackPopV2"})
_DRAWS = frozenset({"RandomUniform", "RandomStandardNormal", "TruncatedNormal"})
_COMPARES = frozenset({"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual",
                       "LogicalAnd", "LogicalOr", "LogicalNot"})
_OF_ARRAYS = {"TensorArrayGradV3": "gradient", "TensorArrayReadV3": "read",
              "TensorArrayWriteV3": "write"}


# Kinds of steps that make values in places of their own.
_MAKE = frozenset({"product", "join", "split", "map", "choose", "zeros"})


class Step(NamedTuple):
    """A line of a loop as one step. `kind` is "product", "join", "split", "map", "choose", "zeros",
    "copy", "shape" or "sum" of values; "compare" or "draw" of what depends on none, but for the
    shape of one; "read" or "write" of an element, "gradient" of a TensorArray; "pop", "push",
    "pop_scalar" or "push_scalar"."""

    kind: str
    target: str
    arguments: tuple[str, ...]
    line: Line


class LoopSteps:
    """The steps of a loop, found when it is compiled; raises UntraceableError if it cannot be
    called.

    Attributes:
        steps: what the lines do that are not about scalars alone.
        outside: the names of what comes from outside.
        entering: the variables that are not scalars, with the names of their first values.
        following: the names of their next values, each of one variable.
        kept: the names of all values that outlive their iteration.
        summed: those that are only kept for sums.
        factors: the scalars of the loop that values are computed with.
        indices: all scalars of the loop whose values in each iteration are wanted.
        count: see `_count_function`.
        counted_by: those of `outside` that it takes, by number.
    """

    def __init__(self, program: Translation, start: int, end: int) -> None:
        self.program = program
        lines = program.lines[start : end + 1]
        require(len(lines) <= tuning.STEPS_MOST_LINES)
        self.variables = dict(zip(lines[0].targets, lines[0].arguments))
        self.assigned = assigned(lines)
        self.scalars = {v for v in self.variables if v in program.scalars}
        self.scalar_lines: list[Line] = []
        self.steps: list[Step] = []
        self.arrays: set[str] = set()
        self.flags: set[str] = set()
        self.shapes: dict[str, str] = {}  # name -> that of the value whose shape it is
        self.made = {name for line in lines for name in line.targets}
        for line in lines[1:-1]:
            self._take(line)
        self._check_outside(end)
        require(any(s.kind == "product" for s in self.steps) and all(
            n in self.scalars for v, n in self.assigned.items() if v in self.scalars))
        self.entering = {v: n for v, n in self.variables.items() if v not in self.scalars}
        self.following: dict[str, str] = {}
        for variable, name in self.assigned.items():
            if variable not in self.scalars:
                self.following[variable] = self._place_of_next(variable, name, lines[0])
        self.summed: set[str] = set()
        self.kept = self._kept()
        inner = self.scalars & self.made
        self.factors = inner & {a for s in self.steps if s.kind == "map" for a in s.arguments}
        self.indices = sorted(
            {s.arguments[1] for s in self.steps if s.kind in ("read", "write", "push_scalar")}
            | {a for s in self.steps if s.kind == "compare" for a in s.arguments} & inner
            | self.factors)
        self.outside = [*dict.fromkeys([
            a for line in lines for a in line.arguments
            if a not in self.made and a not in program.globals])]
        self.counted_by = [k for k, name in enumerate(self.outside) if any(
            name in line.arguments for line in self.scalar_lines) or any(
            v in self.scalars and n == name for v, n in self.variables.items())]
        self.count = self._count_function()

    def _place_of_next(self, variable: str, name: str, line: Line) -> str:
        """The name of a variable's next value, which lies in a place of its own."""
        made = {t for s in self.steps if s.kind in _MAKE for t in s.line.targets}
        if name in made and name not in self.following.values():
            return name
        self.steps.append(Step("copy", f"{variable}+", (name,), line))
        return f"{variable}+"

    def _take(self, line: Line) -> None:
        if isinstance(line, Until):
            require(line.arguments[0] in self.scalars and not self.steps)
            self.scalar_lines.append(line)
        elif self._is_scalar(line):
            self._take_scalar(line)
        elif not isinstance(line, Next):
            require(not isinstance(line, Structure))
            self.steps.append(self._step(line))

    def _take_scalar(self, line: Line) -> None:
        self.scalars.update(line.targets)
        self.scalar_lines.append(line)

    def _take_flow(self, line: Line, target: str, flow: str) -> None:
        """Note that the flow `target`, which only orders the accesses to an array, equals
        `flow`."""
        require(flow in self.scalars or flow not in self.made)
        self._take_scalar(Assign(line.node, [target], [flow]))

    def _is_scalar(self, line: Line) -> bool:
        node, is_one = line.node, len(line.targets) == 1
        if line.bound is None or not is_one or line.targets[0] not in self.program.scalars:
            return False
        if not isinstance(line, Operator) and (
                not is_call(line, {node.type}) or node.op_def.is_stateful
                or node.type in _OF_ARRAYS or node.type in _POPS):
            return False
        return all([a in self.scalars or a not in self.made for a in line.arguments])

    def _step(self, line: Line) -> Step:
        """The step of a line that computes with values in rows."""
        given = tuple(line.arguments)
        if isinstance(line, AddToSums):
            return Step("sum", "", given, line)
        target = line.targets[0] if line.targets else ""
        node = line.node
        require(is_call(line, {node.type}))
        if node.type in _OF_ARRAYS:
            return self._step_of_array(line)
        views = views_of(line)
        if views:
            return Step("split", "", (views[0].source,), line)
        if node.type == "ConcatV2":
            require(self.program.globals.get(given[-1]) in (1, -1))
            return Step("join", target, given[:-1], line)
        require(len(line.targets) == 1)
        if self._is_comparison(line):
            self.flags.add(target)
            return Step("compare", target, given, line)
        if node.type == "Shape":
            self.shapes[target] = given[0]
            return Step("shape", "", given, line)
        if node.type in _DRAWS:
            require(given[0] in self.shapes or given[0] not in self.made)
            return Step("draw", target, (self.shapes.get(given[0], given[0]),), line)
        if node.type == "MatMul":
            require(not node.attrs.get("transpose_a") and given[1] not in self.made)
            return Step("product", target, given, line)
        if node.type in _POPS:
            if target not in self.program.scalars:
                return Step("pop", target, given, line)
            self._take_scalar(line)
            return Step("pop_scalar", "", given, line)
        if node.type in ("StackPush", "StackPushV2"):
            require(not self._is_read(target))
            return Step("push_scalar" if given[1] in self.scalars else "push", "", given, line)
        if node.type in ("ZerosLike", "Select"):
            return Step("zeros" if node.type == "ZerosLike" else "choose", target, given, line)
        kernel = line.bound.kernel  # type: ignore[union-attr]
        require(kernel is not None and kernel.elementwise and not kernel.host_inputs
               and len(given) == len(node.inputs))
        return Step("map", target, given, line)

    def _is_comparison(self, line: Line) -> bool:
        """True for flags that follow from scalars of the iteration and vectors from outside."""
        return is_call(line, _COMPARES) and all(
            [a in self.scalars or a in self.flags or a not in self.made for a in line.arguments])

    def _step_of_array(self, line: Line) -> Step:
        """Return the step of a line that uses a TensorArray."""
        given, kind = tuple(line.arguments), _OF_ARRAYS[line.node.type]
        require(given[0] not in self.made or given[0] in self.arrays)
        if kind == "gradient":
            self.arrays.add(line.targets[0])
            self._take_flow(line, line.targets[1], given[1])
            return Step(kind, line.targets[0], given, line)
        require(given[1] in self.scalars)
        if kind == "write":
            self._take_flow(line, line.targets[0], given[3])
            return Step(kind, "", given, line)
        require(given[2] in self.scalars or given[2] not in self.made)
        return Step(kind, line.targets[0], given, line)

    def _is_read(self, name: str) -> bool:
        return any(name in line.arguments for line in self.program.lines)

    def _check_outside(self, end: int) -> None:
        """Raise UntraceableError if anything but the variables is read after the loop."""
        inner = self.made - {*self.variables}
        for line in self.program.lines[end + 1 :]:
            require(inner.isdisjoint(line.arguments))
        require(all(p is None or self.program.name(p) not in inner for p in self.program.outputs))

    def _kept(self) -> set[str]:
        left = {s.arguments[1] for s in self.steps if s.kind == "push"}
        left |= {s.arguments[2] for s in self.steps if s.kind == "write"}
        left |= self._next_of(left)
        summed = {a for s in self.steps if s.kind == "sum" for a in s.arguments[1:]}
        self.summed = (summed | self._next_of(summed)) - left
        return left | self.summed

    def _next_of(self, names: set[str]) -> set[str]:
        return {self.following[v] for v in names if v in self.following}

    def _count_function(self) -> Any:
        """The iterations by the scalars alone: a list with the values of `indices` in each, and the
        values of the scalar variables at the end; None if there are many."""
        variables = [v for v in self.variables if v in self.scalars]
        text = [f"def count({', '.join([self.outside[k] for k in self.counted_by])}):",
                f"    {_tuple(variables)} = {_tuple([self.variables[v] for v in variables])}",
                "    found = []", f"    while len(found) <= {tuning.STEPS_MOST_ITERATIONS}:"]
        text += [f"        if not {line.arguments[0]}: return found, {_tuple(variables)}"
                 if isinstance(line, Until) else f"        {_scalar_text(line)}"
                 for line in self.scalar_lines]
        text.append(f"        found.append({_tuple(self.indices)})")
        changed = [v for v in variables if v in self.assigned]
        if changed:
            following = _tuple([self.assigned[v] for v in changed])
            text.append(f"        {_tuple(changed)} = {following}")
        scope = dict(self.program.globals)
        exec(compile("\n".join(text) + "\n", "<hpcflow count>", "exec"), scope)
        return scope["count"]


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if names else ''})"


def _scalar_text(line: Line) -> str:
    target, given = line.targets[0], line.arguments
    if line.node.type in _POPS:  # it stays there until the calls are made
        return f"{target} = {given[0]}.values[-1 - len(found)]"
    match line:
        case Operator():
            return f"{target} = {line.expression()}"
        case Call():
            return f"{target} = {line.function}({', '.join(given)})"
    return f"{target} = {given[0]}"
