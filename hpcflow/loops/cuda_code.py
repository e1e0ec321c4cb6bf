"""The CUDA back end of the form: the C++ text of a kernel of one or several programs.

A kernel is launched in blocks of 256 threads. Each of its programs has a share of the blocks; a
program is a device function, one of these kinds:

- elements: each thread computes some elements;
- rows: 32 threads, or all of a block, compute a row; what is loaded for its reductions stays in
  registers if there is room, other values that vary in the row are computed anew after each;
- columns: a block sums some columns of some rows. The block that ends last joins the sums of all,
  in their order, so the bits do not depend on which it is.

Products are not contracted with sums (the option ``--fmad=false``), so arithmetic has the bits of
NumPy's. Nothing is included: the text compiles wherever NVRTC is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops.form import (
    Argument,
    Column,
    ColumnReduce,
    Constant,
    Elementwise,
    Instruction,
    Load,
    Map,
    Program,
    RowReduce,
    Store,
    extents,
    leading_to,
)
from hpcflow.loops.meanings import (
    CAST,
    MEANINGS,
    REDUCTIONS,
    SELECT,
    numpy_dtype,
    start_of,
    wide_dtype,
)

THREADS = 256  # of a block
OPTIONS = ("-std=c++17", "--fmad=false")
ELEMENTS, ROWS, COLUMNS = "elements", "rows", "columns"

# dtype -> the type in memory, and the type of a value.
_TYPES = {
    "float32": ("float", "float"), "float64": ("double", "double"),
    "float16": ("unsigned short", "float"), "bfloat16": ("unsigned short", "float"),
    "bool": ("bool", "bool"), "int8": ("signed char", "signed char"),
    "uint8": ("unsigned char", "unsigned char"), "int16": ("short", "short"),
    "uint16": ("unsigned short", "unsigned short"), "int32": ("int", "int"),
    "uint32": ("unsigned int", "unsigned int"), "int64": ("long long", "long long"),
    "uint64": ("unsigned long long", "unsigned long long"),
}  # fmt: skip
_NARROW = {"float16": "half", "bfloat16": "bfloat"}
#: Whole numbers that CUDA ends at the largest, where CPUs wrap around: floats become them by way of
#: int64.
WRAPPED = frozenset({"int8", "uint8", "int16", "uint16", "uint32"})

PRELUDE = """
static __device__ __forceinline__ float from_half(unsigned short x) {
  float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y;
}
static __device__ __forceinline__ unsigned short to_half(float x) {
  unsigned short y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y;
}
static __device__ __forceinline__ float from_bfloat(unsigned short x) {
  return __uint_as_float((unsigned int)x << 16);
}
static __device__ __forceinline__ unsigned short to_bfloat(float x) {
  if (x != x) return 0x7fc0;
  unsigned int bits = __float_as_uint(x);
  return (unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static __device__ __forceinline__ float as_half(float x) { return from_half(to_half(x)); }
static __device__ __forceinline__ float as_bfloat(float x) { return from_bfloat(to_bfloat(x)); }
"""


def types_of(dtype: str) -> tuple[str, str]:
    """The C++ types of an element in memory, and of its value; empty if there are none."""
    return _TYPES.get(dtype, ("", ""))


def narrow_of(dtype: str) -> str:
    """The name in the prelude of a floating type of 16 bits; empty for others."""
    return _NARROW.get(dtype, "")


def supports(program: Program) -> bool:
    """True if every dtype of `program` has a form here, and it reduces rows or columns alone."""
    kinds = {type(s) for s in program.instructions}
    return not kinds >= {RowReduce, ColumnReduce} and all(
        s.dtype in _TYPES for s in program.instructions)


def kind_of(program: Program) -> str:
    """ELEMENTS, ROWS or COLUMNS."""
    if any(isinstance(s, ColumnReduce) for s in program.instructions):
        return COLUMNS
    return ROWS if any(isinstance(s, RowReduce) for s in program.instructions) else ELEMENTS


def lanes_of(columns: int) -> int:
    """The threads that compute a row."""
    return 32 if columns <= 1024 else THREADS


def tile_of(columns: int) -> int:
    """The columns that a block of a program of columns sums, a power of two."""
    return 1 << (min(columns, 32) - 1).bit_length()


def kernel_text(programs: Sequence[Program], index: str = "int") -> str:
    """The source of ``extern "C" void kernel(...)`` for some programs.

    Its parameters are, for each program in turn: the arrays, the arguments, the number of rows, the
    number of blocks, and for sums of columns the number of splits of the rows, the memory for the
    parts, and a counter for each tile. `index` is the type of positions.
    """
    known: dict[Program, str] = {}
    functions = []
    for program in programs:
        if program not in known:
            known[program] = f"part{len(known)}"
            functions.append(_Function(program, known[program]).text())
    parameters: list[str] = []
    calls: list[str] = []
    for i, program in enumerate(programs):
        names, call = _call(program, i, known[program])
        parameters += names
        calls += call
    body = "\n".join(f"  {line}" for line in ["int block = blockIdx.x;", *calls])
    given = ",\n    ".join(parameters)
    return (f"typedef {index} position;\n{PRELUDE}\n" + "\n".join(functions)
            + f'\nextern "C" __global__ __launch_bounds__({THREADS}) void kernel(\n    {given}) '
            + f"{{\n{body}\n}}\n")


def statements(program: Program) -> list[str]:
    """The lines that compute one element of a program without reductions, of one column: they see
    its arrays as ``a0``, ``a1``, ..., its arguments as ``s0``, ..., and the row as ``r``."""
    made = _Function(program, "")
    made._values(range(len(made.steps)))
    made._stores(lambda _: True)
    return made.lines


def _parameters(program: Program) -> list[tuple[str, str]]:
    """Types and names of the parameters of a program's function."""
    stored, loaded = program.stored(), program.loaded()
    found = []
    for i, dtype in enumerate(program.arrays):
        plain = _TYPES[dtype][0]
        kept = f"const {plain}* __restrict__" if i not in stored else (
            f"{plain}*" if i in loaded else f"{plain}* __restrict__")
        found.append((kept, f"a{i}"))
    found += [(_TYPES[t][0], f"s{i}") for i, t in enumerate(program.arguments)]
    found += [("long long", "rows"), ("long long", "blocks")]
    if kind_of(program) == COLUMNS:
        found += [("long long", "splits"), ("char*", "parts"), ("unsigned int*", "counters")]
    return found


def _call(program: Program, number: int, name: str) -> tuple[list[str], list[str]]:
    """The parameters of the kernel that are those of a program, and the lines that run it."""
    pairs = [(kind, f"p{number}_{word}") for kind, word in _parameters(program)]
    names = [word for _, word in pairs]
    blocks = f"p{number}_blocks"
    lines = [f"if (block < {blocks}) {{ {name}({', '.join([*names, 'block'])}); return; }}",
             f"block -= (int){blocks};"]
    return [f"{kind} {word}" for kind, word in pairs], lines


class _Function:
    """Writes the device function of a program."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.name = name
        self.steps = program.instructions
        self.extents = extents(program)
        self.columns, self.lanes = program.columns, lanes_of(program.columns)
        self.reduced = {i: s for i, s in enumerate(self.steps)
                        if isinstance(s, (RowReduce, ColumnReduce))}
        self.kept: list[int] = []  # loads of a row that stay in registers
        self.lines: list[str] = []
        self.depth = 1

    def text(self) -> str:
        """The function's text."""
        given = ", ".join([f"{k} {n}" for k, n in _parameters(self.program)] + ["int block"])
        self._put("const position count = (position)rows;")
        {ELEMENTS: self._elements, ROWS: self._rows, COLUMNS: self._columns}[
            kind_of(self.program)]()
        body = "\n".join(self.lines)
        return f"static __device__ void {self.name}({given}) {{\n{body}\n}}"

    def _put(self, *lines: str) -> None:
        self.lines += ["  " * self.depth + line for line in lines]

    def _open(self, line: str) -> None:
        self._put(line + " {")
        self.depth += 1

    def _close(self, blocks: int = 1) -> None:
        for _ in range(blocks):
            self.depth -= 1
            self._put("}")

    # ------------------------------------------------------------ kinds

    def _elements(self) -> None:
        self._put(f"const position size = count * {self.columns};")
        self._put(f"const position stride = (position)blocks * {THREADS};")
        self._put("#pragma unroll 4")
        self._open(f"for (position i = (position)block * {THREADS} + threadIdx.x; i < size; "
                   "i += stride)")
        self._put(f"const position r = i / {self.columns}, c = i - r * {self.columns};")
        self._values(range(len(self.steps)))
        self._stores(lambda _: True)
        self._close()

    def _rows(self) -> None:
        groups = THREADS // self.lanes
        self._put(f"const int lane = threadIdx.x % {self.lanes};")
        self._open(f"for (position r = (position)block * {groups} + threadIdx.x / {self.lanes}; "
                   f"r < count; r += (position)blocks * {groups})")
        self._keep()
        for phase in range(1 + max(self.extents[i].phase for i in self.reduced)):
            self._values([i for i, e in enumerate(self.extents)
                          if e.phase == phase and not e.columns])
            self._reduce_row([i for i in self.reduced if self.extents[i].phase == phase + 1])
        self._each_column()
        stored = [s for s in self.steps if isinstance(s, Store) and s.map.column != 0]
        self._values(self._varying(s.operand for s in stored))
        self._stores(lambda s: s.map.column != 0)
        self._close(2)
        self._open("if (lane == 0)")
        self._put("const position c = 0;")
        self._stores(lambda s: s.map.column == 0)
        self._close(2)

    def _reduce_row(self, reduced: list[int]) -> None:
        if not reduced:
            return
        for i in reduced:
            self._put(f"{self._type(i)} v{i} = {self._start(i)};")
        self._each_column()
        self._values(self._varying(self.reduced[i].operand for i in reduced))
        for i in reduced:
            self._join(i, f"v{self.reduced[i].operand}")
        self._close(2)
        for i in reduced:
            self._across(i)

    def _keep(self) -> None:
        """Load what the reductions of a row read, if it fits in registers."""
        loads = [i for i in self._varying(s.operand for s in self.reduced.values())
                 if isinstance(self.steps[i], Load)]
        each = -(-self.columns // self.lanes)
        of_each = sum(max(4, numpy_dtype(self.steps[i].dtype).itemsize) for i in loads)
        if not loads or each * of_each > tuning.CUDA_KEPT_BYTES:
            return
        self.kept = loads
        for i in loads:
            self._put(f"{self._type(i)} kept{i}[{each}];")
        self._each_column()
        for i in loads:
            self._put(f"kept{i}[n] = {self._expression(self.steps[i])};")
        self._close(2)

    def _each_column(self) -> None:
        """Begin a pass over the columns of a thread: two blocks."""
        if self.kept:
            self._put("#pragma unroll")
        self._open(f"for (int n = 0; n < {-(-self.columns // self.lanes)}; n++)")
        self._put(f"const position c = lane + (position)n * {self.lanes};")
        self._open(f"if (c < {self.columns})")

    def _across(self, i: int) -> None:
        """Join what the threads of a row have found; each gets the result."""
        self._put("#pragma unroll")
        self._open("for (int m = 16; m; m /= 2)")
        self._put(f"const {self._type(i)} other = __shfl_xor_sync(0xffffffffu, v{i}, m);")
        self._join(i, "other")
        self._close()
        if self.lanes > 32:
            self._put(f"__shared__ {self._type(i)} row{i}[{THREADS // 32}];", "__syncthreads();",
                      f"if (threadIdx.x % 32 == 0) row{i}[threadIdx.x / 32] = v{i};",
                      "__syncthreads();", f"v{i} = row{i}[0];", "#pragma unroll")
            self._join(i, f"row{i}[m]", f"for (int m = 1; m < {THREADS // 32}; m++) ")
        self._round(i)

    def _columns(self) -> None:
        columns, width = self.columns, tile_of(self.columns)
        height, tiles = THREADS // width, -(-columns // width)
        self._put(f"const int x = threadIdx.x % {width}, y = threadIdx.x / {width};")
        self._put(f"const int tile = block % {tiles}, split = block / {tiles};")
        self._put(f"const position c = (position)tile * {width} + x;")
        for i in self.reduced:
            self._put(f"{self._type(i)} v{i} = {self._start(i)};")
        before = [i for i, e in enumerate(self.extents) if not e.is_final]
        self._open(f"if (c < {columns})")
        self._put("#pragma unroll 4")
        self._open(f"for (position r = (position)split * {height} + y; r < count; "
                   f"r += (position)splits * {height})")
        self._values(before)
        self._stores(lambda s: not self.extents[s.operand].is_final)
        for i, step in self.reduced.items():
            self._join(i, f"v{step.operand}")
        self._close(2)
        for i in self.reduced:
            self._in_block(i, width, height)
        self._last_block(width, height, tiles)

    def _in_block(self, i: int, width: int, height: int) -> None:
        """Join what the threads of a column have found; those with ``y == 0`` get it."""
        self._put(f"__shared__ {self._type(i)} column{i}[{height}][{width}];",
                  f"column{i}[y][x] = v{i};", "__syncthreads();")
        self._open(f"for (int m = {height // 2}; m; m /= 2)")
        self._put(f"if (y < m) column{i}[y][x] = "
                  f"{self._joined(i, f'column{i}[y][x]', f'column{i}[y + m][x]')};")
        self._put("__syncthreads();")
        self._close()
        self._put(f"v{i} = column{i}[0][x];")

    def _last_block(self, width: int, height: int, tiles: int) -> None:
        """Where rows are split: the last block of a tile joins all parts. Then the results."""
        columns = self.columns
        self._put(f"const bool mine = y == 0 && c < {columns};")
        self._open("if (splits > 1)")
        for k, i in enumerate(self.reduced):
            size = numpy_dtype(wide_dtype(self.steps[i].dtype)).itemsize
            self._put(f"{self._type(i)}* part{i} = ({self._type(i)}*)parts + "
                      f"(position)splits * {columns} * {k} * {8 // size};")
            self._put(f"if (mine) part{i}[(position)split * {columns} + c] = v{i};")
        self._put("__shared__ bool is_last;", "__threadfence();", "__syncthreads();",
                  "if (threadIdx.x == 0) is_last = "
                  "atomicAdd(counters + tile, 1u) == (unsigned int)splits - 1;",
                  "__syncthreads();", "if (!is_last) return;",
                  "if (threadIdx.x == 0) counters[tile] = 0;", "__threadfence();")
        for i in self.reduced:
            self._put(f"v{i} = {self._start(i)};")
            self._join(i, f"__ldcg(part{i} + s * {columns} + c)",
                       f"if (c < {columns}) for (position s = y; s < splits; s += {height}) ")
            self._put("__syncthreads();", f"column{i}[y][x] = v{i};", "__syncthreads();")
            self._join(i, f"column{i}[m][x]", f"for (int m = 1; m < {height}; m++) if (y == 0) ")
        self._close()
        self._open("if (mine)")
        for i in self.reduced:
            self._round(i)
        self._put("const position r = 0;")
        self._values(leading_to(
            self.steps, [s.operand for s in self.steps
                         if isinstance(s, Store) and self.extents[s.operand].is_final],
            lambda i: not isinstance(self.steps[i], ColumnReduce)))
        self._stores(lambda s: self.extents[s.operand].is_final)
        self._close()

    # ------------------------------------------------------------ values

    def _varying(self, roots: Iterable[int]) -> list[int]:
        """What varies within a row of `roots` and of what they are made of."""
        return leading_to(self.steps, roots, lambda i: self.extents[i].columns)

    def _values(self, chosen: Sequence[int]) -> None:
        for i in chosen:
            step = self.steps[i]
            if not isinstance(step, (Store, RowReduce, ColumnReduce)):
                text = f"kept{i}[n]" if i in self.kept else self._expression(step)
                self._put(f"const {self._type(i)} v{i} = {text};")

    def _stores(self, wanted: object) -> None:
        for step in self.steps:
            if isinstance(step, Store) and wanted(step):  # type: ignore[operator]
                value = f"v{step.operand}"
                if step.dtype in _NARROW:
                    value = f"to_{_NARROW[step.dtype]}({value})"
                place = f"a{step.array}[{self._place(step.map)}]"
                self._put(f"{self._once(step.map)}{place} = {value};")

    def _once(self, where: Map) -> str:
        """The condition under which one of the threads stores what several have."""
        tests = []
        if kind_of(self.program) != ROWS:
            tests += ["r == 0"] * (where.row == 0)
            tests += ["c == 0"] * (where.column == 0 and self.columns > 1)
        return f"if ({' && '.join(tests)}) " if tests else ""

    def _place(self, where: Map) -> str:
        row = self.columns if where.row is None else where.row
        column = where.column if self.columns > 1 else 0
        words = [f"{where.offset}"] if where.offset else []
        words += [f"{name} * {step}" if step != 1 else name
                  for name, step in (("r", row), ("c", column)) if step]
        return " + ".join(words) or "0"

    def _expression(self, step: Instruction) -> str:
        if isinstance(step, Load):
            return _read(step.dtype, f"a{step.array}[{self._place(step.map)}]")
        if isinstance(step, Argument):
            return _read(step.dtype, f"s{step.number}")
        if isinstance(step, Constant):
            return literal(step.value, step.dtype)
        if isinstance(step, Column):
            return f"({_TYPES[step.dtype][1]}){'c' if self.columns > 1 else '0'}"
        assert isinstance(step, Elementwise)
        return self._applied(step)

    def _applied(self, step: Elementwise) -> str:
        names = [f"v{o}" for o in step.operands]
        if step.function == SELECT:
            return "{} ? {} : {}".format(*names)
        given = self.steps[step.operands[0]].dtype
        if step.function == CAST:
            wide = "(long long)" if given.startswith(("float", "bfloat")) and (
                step.dtype in WRAPPED) else ""
            return _rounded(step.dtype, f"{names[0]} != 0" if step.dtype == "bool" else
                            f"({_TYPES[step.dtype][1]}){wide}{names[0]}")
        text = MEANINGS[step.function].cuda.format(*names, f="" if given == "float64" else "f")
        return text if step.dtype == "bool" else _rounded(step.dtype, text)

    def _type(self, i: int) -> str:
        return _TYPES[self.steps[i].dtype][1]

    # ------------------------------------------------------------ reductions

    def _start(self, i: int) -> str:
        return literal(start_of(self.reduced[i].function, self.steps[i].dtype), self.steps[i].dtype)

    def _joined(self, i: int, x: str, y: str) -> str:
        return MEANINGS[REDUCTIONS[self.reduced[i].function].function].cuda.format(x, y, f="f")

    def _join(self, i: int, other: str, when: str = "") -> None:
        """Join a reduction's value with another one, or with several in turn."""
        self._put(f"{when}v{i} = {self._joined(i, f'v{i}', other)};")

    def _round(self, i: int) -> None:
        """Give the result of a reduction the numbers of its dtype."""
        if self.steps[i].dtype in _NARROW:
            self._put(f"v{i} = as_{_NARROW[self.steps[i].dtype]}(v{i});")


def _read(dtype: str, text: str) -> str:
    """The value of what has a dtype in memory."""
    return f"from_{_NARROW[dtype]}({text})" if dtype in _NARROW else text


def _rounded(dtype: str, text: str) -> str:
    """An expression of which the value has the dtype: narrow floats are computed in float32."""
    if dtype in _NARROW:
        return f"as_{_NARROW[dtype]}({text})"
    return f"({_TYPES[dtype][1]})({text})"


def literal(value: float | int | bool, dtype: str) -> str:
    """A number with all its bits."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "float64":
        bits, = struct.unpack("<q", struct.pack("<d", value))
        return f"__longlong_as_double(0x{bits & (1 << 64) - 1:016x}LL)"
    if dtype in _NARROW or dtype == "float32":
        bits, = struct.unpack("<I", struct.pack("<f", value))
        return f"__uint_as_float(0x{bits:08x}u)"
    if dtype.endswith("64"):
        word = "LL" if dtype == "int64" else "ULL"
        return f"(-{-int(value) - 1}LL - 1)" if value < 0 else f"{int(value)}{word}"
    return f"({_TYPES[dtype][1]})({int(value)})"
