"""Machine code of loops that are given as text: see `code_of`.

The text is Python, of which there are numbers, vectors and matrices, ``range``, ``while``, ``if``,
element-wise functions of the table of meanings by NumPy's names, and a result that is a whole
number or none. Whole numbers have 64 bits, and are unsigned where one of two is; of a float32 and a
whole number that is not a literal the result is a float64. Nothing counts from the end of an array,
and nobody looks whether a place is inside of it. The turns of a loop over ``apart(first, end)`` do
not depend on each other through memory.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hpcflow.loops import llvm_functions, llvm_math
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import Array, Code, Kind, Number
from hpcflow.loops.form import Argument, Constant, Elementwise, Load, Program, Store
from hpcflow.loops.llvm_loops import Loops
from hpcflow.loops.meanings import MEANINGS

_COMPARES = {ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
             ast.Eq: "equal", ast.NotEq: "not_equal"}
_BINARY = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
           ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"}
_WHOLE = ("int64", "uint64")
_KINDS = (*_WHOLE, "float32", "float64")
# Bits of a whole number at an address, by the name of what reads it.
_READERS = {"word_at": 64, "half_at": 32, "byte_at": 8}


def code_of(name: str, source: str, arrays: tuple, numbers: int | tuple[str, ...],
            program: Program | None = None, before: Callable[[Any], None] | None = None) -> Code:
    """The code of ``loop(*arrays, *numbers)``, which returns nothing or a whole number.

    Args:
        name: see `direct_code.code_from`.
        source: the text.
        arrays: of each a dtype, a rank, and whether it is written to: all lie in C order.
        numbers: their dtypes, or how many integers there are.
        program: of one column without reductions: ``elements(i, *arrays, *numbers)`` runs it for
            the elements `i` of vectors.
        before: writes functions into LLVM's module that the text calls.

    Raises:
        ValueError, SyntaxError: for a text that says something else.
    """
    (text,) = ast.parse(source).body
    if not isinstance(text, ast.FunctionDef):
        raise ValueError("the text is not one function")
    dtypes = ("int64",) * numbers if isinstance(numbers, int) else numbers
    kinds: list[Kind] = [Array(*kind) for kind in arrays]
    kinds += map(Number, dtypes)
    names = [a.arg for a in text.args.args]
    if len(names) != len(kinds):
        raise ValueError(f"the loop takes {len(names)} arguments, not {len(kinds)}")
    returns = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(text))

    def write(function: Any) -> None:
        if before is not None:
            before(function.module)
        Text(function, text, kinds, program).write()

    return code_from(name, kinds, write, returns)


class _Number(NamedTuple):
    """A number of one of `_KINDS`, or a truth value; `literal` if it is written in the text."""

    kind: str
    value: Any
    literal: int | None = None


class _Elements(NamedTuple):
    """An array in C order: its element type, the first one's place, and its dims."""

    dtype: str
    start: Any
    dims: tuple


class Text(Loops):
    """Writes a text into a function: of a table, if there are `kinds`, else of words."""

    def __init__(self, function: Any, text: ast.FunctionDef, kinds: Sequence[Kind] = (),
                 program: Program | None = None) -> None:
        super().__init__(function, kinds)
        self.text, self.program = text, program
        self.names: dict[str, _Elements | tuple[str, Any]] = {}
        self.loops: list[tuple[Any, Any]] = []  # where ``continue`` and ``break`` lead
        names = [a.arg for a in text.args.args]
        for name, kind, given in zip(names, kinds or [Number("int64")] * len(names),
                                     self.given or function.args):
            if isinstance(kind, Array):
                self.names[name] = _Elements(kind.dtype, given[0], tuple(given[1]))
            else:
                self._assign(name, _Number(kind.dtype, given))

    def write(self) -> None:
        """Write it."""
        self._all(self.text.body)
        if not self.builder.block.is_terminated:
            self.builder.ret(self.word(0))

    # ------------------------------------------------------------ statements

    def _all(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            getattr(self, f"_do_{type(statement).__name__.lower()}", self._refused)(statement)
            if self.builder.block.is_terminated:
                break

    def _refused(self, node: ast.AST) -> Any:
        raise ValueError(f"a loop has no {type(node).__name__}")

    def _do_expr(self, s: ast.Expr) -> None:
        self._call(s.value) if isinstance(s.value, ast.Call) else self._refused(s)

    def _do_return(self, s: ast.Return) -> None:
        self.builder.ret(self._word(s.value) if s.value else self.word(0))

    def _do_continue(self, _: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])

    def _do_break(self, _: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    def _do_assign(self, s: ast.Assign) -> None:
        (target,) = s.targets
        if isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple):
            found = [self._of(v) for v in s.value.elts]
            for one, value in zip(target.elts, found, strict=True):
                self._put(one, value)
        else:
            self._put(target, self._of(s.value))

    def _do_augassign(self, s: ast.AugAssign) -> None:
        self._put(s.target, self._binary(s.op, self._number(s.target), self._number(s.value)))

    def _put(self, target: ast.expr, value: _Number | _Elements) -> None:
        if isinstance(target, ast.Name) and isinstance(value, _Elements):
            self.names[target.id] = value
        elif isinstance(target, ast.Name) and isinstance(value, _Number):
            self._assign(target.id, value)
        elif isinstance(target, ast.Subscript) and isinstance(value, _Number):
            array = self._array(target.value)
            made = llvm_math.to_memory(
                self.builder, self._as(value, array.dtype), array.dtype)
            self.store(made, self._place_in(array, target.slice))
        else:
            self._refused(target)

    def _assign(self, name: str, value: _Number) -> None:
        known = self.names.get(name)
        if not isinstance(known, tuple) or isinstance(known, _Elements):
            with self.builder.goto_entry_block():
                known = self.names[name] = value.kind, self.builder.alloca(value.value.type)
        kind, place = known
        self.builder.store(self._as(value, kind), place)

    def _blocks(self, count: int) -> list:
        return [self.function.append_basic_block() for _ in range(count)]

    def _body(self, statements: Sequence[ast.stmt], following: Any, *loop: Any) -> None:
        """Write statements and what follows; of a loop with the blocks of its jumps."""
        self.loops += [loop] if loop else []  # type: ignore[list-item]
        self._all(statements)
        if not self.builder.block.is_terminated:
            self.builder.branch(following)
        del self.loops[len(self.loops) - bool(loop):]

    def _do_if(self, s: ast.If) -> None:
        yes, no, end = self._blocks(3)
        self.builder.cbranch(self._truth(s.test), yes, no)
        for block, statements in ((yes, s.body), (no, s.orelse)):
            self.builder.position_at_end(block)
            self._body(statements, end)
        self.builder.position_at_end(end)

    def _do_while(self, s: ast.While) -> None:
        test, body, end = self._blocks(3)
        self.builder.branch(test)
        self.builder.position_at_end(test)
        self.builder.cbranch(self._truth(s.test), body, end)
        self.builder.position_at_end(body)
        self._body(s.body, test, test, end)
        self.builder.position_at_end(end)

    def _do_for(self, s: ast.For) -> None:
        b, spans = self.builder, s.iter
        name = ast.unparse(spans.func) if isinstance(spans, ast.Call) else ""
        if not isinstance(s.target, ast.Name) or name not in ("range", "apart"):
            self._refused(s)
        given = [self._number(a) for a in spans.args]  # type: ignore[attr-defined]
        kind = "uint64" if any(g.kind == "uint64" for g in given) else "int64"
        words = [self._as(g, kind) for g in given]
        start, stop, step = ([self.word(0), *words, self.word(1)] if len(words) == 1 else
                             [*words, self.word(1)])[:3]
        test, body, following, end = self._blocks(4)
        before = b.block
        b.branch(test)
        b.position_at_end(test)
        index = b.phi(self.word)
        index.add_incoming(start, before)
        compare = b.icmp_unsigned if kind == "uint64" else b.icmp_signed
        b.cbranch(compare("<", index, stop), body, end)
        b.position_at_end(body)
        with self.parallel(is_so=name == "apart"):
            self._assign(s.target.id, _Number(kind, index))  # type: ignore[attr-defined]
            self._body(s.body, following, following, end)
            b.position_at_end(following)
            index.add_incoming(b.add(index, step, flags=("nsw",)), following)
            self.mark(b.branch(test))
        b.position_at_end(end)

    # ------------------------------------------------------------ values

    def _of(self, node: ast.expr) -> _Number | _Elements:
        made = getattr(self, f"_{type(node).__name__.lower()}", self._refused)(node)
        assert isinstance(made, (_Number, _Elements))
        return made

    def _number(self, node: ast.expr) -> _Number:
        found = self._of(node)
        return found if isinstance(found, _Number) else self._refused(node)

    def _array(self, node: ast.expr) -> _Elements:
        found = self._of(node)
        return found if isinstance(found, _Elements) else self._refused(node)

    def _word(self, node: ast.expr) -> Any:
        return self._as(self._number(node), "int64")

    def _truth(self, node: ast.expr) -> Any:
        found = self._number(node)
        return found.value if found.kind == "bool" else self._refused(node)

    def _constant(self, node: ast.Constant) -> _Number:
        value = node.value
        if isinstance(value, bool):
            return _Number("bool", self.ir.IntType(1)(int(value)))
        if isinstance(value, int):
            return _Number("int64" if value < 1 << 63 else "uint64", self.word(value), value)
        return _Number("float64", self.ir.DoubleType()(float(value)))  # type: ignore[arg-type]

    def _name(self, node: ast.Name) -> _Number | _Elements:
        if node.id.startswith("hpcflow_"):  # the address of what the loader or the module knows
            return _Number("int64", self.global_(node.id).ptrtoint(self.word))
        found = self.names[node.id]
        return found if isinstance(found, _Elements) else _Number(
            found[0], self.builder.load(found[1]))

    def _attribute(self, node: ast.Attribute) -> _Number:
        """``x.size``, or ``x.ctypes.data``."""
        inner = node.value.value if node.attr == "data" else node.value  # type: ignore[attr-defined]
        array = self._array(inner)
        if node.attr == "data":
            return _Number("int64", self.builder.ptrtoint(array.start, self.word))
        return _Number("int64", self._size(array)) if node.attr == "size" else self._refused(node)

    def _size(self, array: _Elements) -> Any:
        size = array.dims[0]
        for dim in array.dims[1:]:
            size = self.builder.mul(size, dim)
        return size

    def _subscript(self, node: ast.Subscript) -> _Number | _Elements:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            array, axis = self._array(node.value.value), self._number(node.slice).literal
            return self._refused(node) if axis is None else _Number("int64", array.dims[axis])
        array = self._array(node.value)
        if isinstance(node.slice, ast.Slice):
            low, high = [self._word(n)  # type: ignore[arg-type]
                         for n in (node.slice.lower, node.slice.upper)]
            start = self.builder.gep(array.start, [low], inbounds=True)
            return _Elements(array.dtype, start, (self.builder.sub(high, low),))
        place = self._place_in(array, node.slice)
        if len(array.dims) > 1 and not isinstance(node.slice, ast.Tuple):
            return _Elements(array.dtype, place, array.dims[1:])
        found = llvm_math.from_memory(self.builder, self.load(place), array.dtype)
        kind = _kind_of(array.dtype)
        return _Number(kind, self._as(_Number(array.dtype, found), kind))

    def _place_in(self, array: _Elements, index: ast.expr) -> Any:
        b, numbers = self.builder, index.elts if isinstance(index, ast.Tuple) else [index]
        place, *words = [self._word(n) for n in numbers]
        for dim, word in zip(array.dims[1:], [*words, *[self.word(0)] * len(array.dims)]):
            place = b.add(b.mul(place, dim), word)
        return b.gep(array.start, [place], inbounds=True)

    # ------------------------------------------------------------ arithmetic

    def _as(self, x: _Number, kind: str) -> Any:
        """The value as one of another kind."""
        return x.value if x.kind == kind else llvm_math.cast(self.builder, x.value, x.kind, kind)

    def _alike(self, x: _Number, y: _Number) -> tuple[str, Any, Any]:
        """Two numbers as those of the kind that both become."""
        kinds = {x.kind, y.kind} - {"bool"} or {"int64"}
        for one, other in ((x, y), (y, x)):
            if one.literal is not None and other.kind in _KINDS:
                kinds = {other.kind}
        kind = ("float64" if "float64" in kinds or "float32" in kinds and len(kinds) > 1
                else max(kinds, key=_KINDS.index))
        return kind, self._as(x, kind), self._as(y, kind)

    def _binop(self, node: ast.BinOp) -> _Number:
        return self._binary(node.op, self._number(node.left), self._number(node.right))

    def _binary(self, op: ast.operator, x: _Number, y: _Number) -> _Number:
        b = self.builder
        kind, left, right = self._alike(x, y)
        if kind in _WHOLE and isinstance(op, ast.Div):
            kind, left, right = "float64", self._as(x, "float64"), self._as(y, "float64")
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            return _Number(kind, self._quotient(kind, left, right, isinstance(op, ast.Mod)))
        if isinstance(op, (ast.LShift, ast.RShift)):
            shift = b.shl if isinstance(op, ast.LShift) else b.ashr if kind == "int64" else b.lshr
            return _Number(kind, shift(left, right))
        return _Number(kind, llvm_math.emit(_BINARY[type(op)], b, kind, [left, right]))

    def _quotient(self, kind: str, x: Any, y: Any, wants_rest: bool) -> Any:
        """Rounded down, or the rest, which has the sign of the divisor."""
        b = self.builder
        if kind == "uint64":
            return (b.urem if wants_rest else b.udiv)(x, y)
        rest, zero = b.srem(x, y), self.word(0)
        differs = b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, y), zero))
        if wants_rest:
            return b.add(rest, b.select(differs, y, zero))
        return b.sub(b.sdiv(x, y), b.zext(differs, self.word))

    def _unaryop(self, node: ast.UnaryOp) -> _Number:
        x = self._number(node.operand)
        if isinstance(node.op, ast.Not) != (x.kind == "bool"):
            self._refused(node)
        if x.literal is not None:
            return _Number("int64", self.word(-x.literal), -x.literal)
        function = "logical_not" if x.kind == "bool" else "negative"
        return _Number(x.kind, llvm_math.emit(function, self.builder, x.kind, [x.value]))

    def _compared(self, function: str, x: _Number, y: _Number) -> Any:
        kind, left, right = self._alike(x, y)
        return llvm_math.emit(function, self.builder, kind, [left, right])

    def _compare(self, node: ast.Compare) -> _Number:
        left, found = self._number(node.left), None
        for op, other in zip(node.ops, node.comparators):
            right = self._number(other)
            holds = self._compared(_COMPARES[type(op)], left, right)
            left, found = right, holds if found is None else self.builder.and_(found, holds)
        return _Number("bool", found)

    def _boolop(self, node: ast.BoolOp) -> _Number:
        """What follows is only looked at where it matters."""
        b, is_and = self.builder, isinstance(node.op, ast.And)
        (end,), ways = self._blocks(1), []
        for part in node.values[:-1]:
            value = self._truth(part)
            ways.append((value, b.block))
            (following,) = self._blocks(1)
            b.cbranch(value, *((following, end) if is_and else (end, following)))
            b.position_at_end(following)
        value = self._truth(node.values[-1])
        ways.append((value, b.block))
        b.branch(end)
        b.position_at_end(end)
        found = b.phi(self.ir.IntType(1))
        for value, block in ways:
            found.add_incoming(value, block)
        return _Number("bool", found)

    def _ifexp(self, node: ast.IfExp) -> _Number:
        test = self._truth(node.test)
        kind, yes, no = self._alike(self._number(node.body), self._number(node.orelse))
        return _Number(kind, self.builder.select(test, yes, no))

    # ------------------------------------------------------------ functions

    def _call(self, node: ast.Call) -> _Number | _Elements:
        name = ast.unparse(node.func).removeprefix("np.")
        if name == "flat":
            array = self._array(node.args[0])
            return _Elements(array.dtype, array.start, (self._size(array),))
        if name == "fetch":
            array, place = self._array(node.args[0]), self._word(node.args[1])
            self.fetch(self.builder.gep(array.start, [place]))
            return _Number("int64", self.word(0))
        if name == "elements":
            return self._elements(*node.args)
        numbers = [self._number(a) for a in node.args]
        if name in _KINDS:
            return _Number(name, self._as(numbers[0], name))
        if name in ("min", "max"):
            return self._extreme("less" if name == "min" else "greater", numbers)
        if name in MEANINGS:
            kind = numbers[0].kind
            made = llvm_functions.emit(name, self.builder, kind, [n.value for n in numbers])
            return _Number("bool" if MEANINGS[name].is_test else kind, made)
        if name == "turned":
            item, side = [n.literal or 0 for n in numbers[4:]]
            self._turned([n.value for n in numbers[:4]], item, side)
            return numbers[0]
        return _Number("int64", self._machine(name, [n.value for n in numbers]))

    def _elements(self, index: ast.expr, *given: ast.expr) -> _Number:
        """Run the program for an element."""
        assert self.program is not None
        b, count, steps = self.builder, len(self.program.arrays), self.program.instructions
        places = [b.gep(self._array(a).start, [self._word(index)], inbounds=True)
                  for a in given[:count]]
        numbers = [self._as(self._number(a), t)
                   for a, t in zip(given[count:], self.program.arguments)]
        values: list[Any] = []
        for step in steps:
            if isinstance(step, Load):
                values.append(self.load(places[step.array]))
            elif isinstance(step, Store):
                self.store(values[step.operand], places[step.array])
            elif isinstance(step, Argument):
                values.append(numbers[step.number])
            elif isinstance(step, Constant):
                values.append(llvm_math.value_type(step.dtype)(step.value))
            else:
                assert isinstance(step, Elementwise)
                values.append(llvm_functions.emit(
                    step.function, b, steps[step.operands[0]].dtype,
                    [values[o] for o in step.operands]))
        return _Number("int64", self.word(0))

    def _machine(self, name: str, words: list) -> Any:
        """What `entry_code` and `call_list` need: words at addresses, and functions by names."""
        b, word = self.builder, self.word
        if name in _READERS:
            kind = self.ir.IntType(_READERS[name])
            found = b.load(self.place(words[0], word(0), kind))
            return found if kind == word else b.zext(found, word)
        if name == "put":
            b.store(words[1], self.place(words[0], word(0), word))
            return words[1]
        if name == "take":
            return b.atomic_rmw("add", self.place(words[0], word(0), word), words[1], "monotonic")
        if name == "stack":
            return b.ptrtoint(b.alloca(word, words[0]), word)
        if name == "bits":
            return b.bitcast(words[0], word)
        if name == "invoke":
            kind = self.ir.FunctionType(word, [word] * (len(words) - 1))
            return b.call(b.inttoptr(words[0], kind.as_pointer()), words[1:])
        if not name.startswith(("Py", "hpcflow_")):
            raise ValueError(f"a loop has no function {name}")
        made = self.ir.DoubleType() if name == "PyFloat_AsDouble" else word
        return b.call(self.c_function(name, made, *[word] * len(words)), words)

    def _extreme(self, order: str, given: Sequence[_Number]) -> _Number:
        found = given[0]
        for other in given[1:]:
            kind, x, y = self._alike(found, other)
            is_better = self._compared(order, _Number(kind, y), _Number(kind, x))
            found = _Number(kind, self.builder.select(is_better, y, x))
        return found

    def _turned(self, words: list, item: int, side: int) -> None:
        """``turned(to, to_step, of, of_step, item, side)`` copies a square of `side` words of
        `item` bytes and transposes it, given the addresses of its corners and the bytes between its
        rows: the upper half of the rows is zipped with the lower one, log2(side) times."""
        b, ir, half = self.builder, self.ir, side // 2
        to, to_step, of, of_step = words
        kind = ir.VectorType(ir.IntType(8 * item), side)
        places = ir.VectorType(ir.IntType(32), side)
        zipped = [places([p for k in range(first, first + half) for p in (k, k + side)])
                  for first in (0, half)]
        place: Callable = lambda corner, step, i: self.place(  # noqa: E731
            corner, b.mul(step, self.word(i)), kind)
        rows = [b.load(place(of, of_step, i), align=item) for i in range(side)]
        for _ in range(side.bit_length() - 1):
            rows = [b.shuffle_vector(rows[i], rows[i + half], z) for i in range(half)
                    for z in zipped]
        for i, value in enumerate(rows):
            b.store(value, place(to, to_step, i), align=item)


def _kind_of(dtype: str) -> str:
    """The kind that an element becomes."""
    if dtype in ("bool", "float32", "float64"):
        return dtype
    return "uint64" if dtype.startswith("uint") else "int64"
