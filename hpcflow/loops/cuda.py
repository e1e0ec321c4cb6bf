"""Runs programs of the form on a CUDA GPU through CuPy: kernels, their sizes, scratch memory."""

from __future__ import annotations

import ctypes
import functools
import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import cuda_code
from hpcflow.loops.elements import ElementKernel, Run
from hpcflow.loops.form import ColumnReduce, Program
from hpcflow.loops.meanings import numpy_dtype

#: ``launch(rows, arrays)``: runs programs that were prepared. `rows` has the number of rows of
#: each, `arrays` what each is given in turn: its arrays, in C order, then its numbers.
Launch = Callable[[tuple[int, ...], Sequence[Sequence[Any]]], None]


class Share(NamedTuple):
    """How a program is spread over a GPU.

    Attributes:
        blocks: of threads.
        splits: of the rows, for sums of columns.
        tiles: of the columns, each of which needs a counter; 0 where rows are not split.
        scratch: bytes for the sums of the parts.
    """

    blocks: int
    splits: int = 1
    tiles: int = 0
    scratch: int = 0


def share(program: Program, rows: int) -> Share:
    """The share of a GPU for a program over so many rows."""
    kind = cuda_code.kind_of(program)
    if kind == cuda_code.COLUMNS:
        width = cuda_code.tile_of(program.columns)
        tiles, height = -(-program.columns // width), cuda_code.THREADS // width
        wanted = -(-rows // (height * tuning.CUDA_ROWS_EACH))
        splits = max(1, min(wanted, tuning.CUDA_MOST_BLOCKS // tiles))
        if splits == 1:
            return Share(tiles)
        nbytes = 8 * splits * program.columns * sum(
            isinstance(s, ColumnReduce) for s in program.instructions)
        return Share(tiles * splits, splits, tiles, nbytes)
    per_block, size = cuda_code.THREADS, rows * program.columns
    if kind == cuda_code.ROWS:
        per_block, size = cuda_code.THREADS // cuda_code.lanes_of(program.columns), rows
    return Share(max(1, min(-(-size // per_block), tuning.CUDA_MOST_BLOCKS)))


class _Parameters:
    """The parameters of one call of a kernel: eight bytes each, and where these are."""

    def __init__(self, values: Sequence[int]) -> None:
        self.slots = (ctypes.c_longlong * len(values))(*values)
        start = ctypes.addressof(self.slots)
        places = [start + 8 * i for i in range(len(values))]
        self._places = (ctypes.c_void_p * len(values))(*places)
        self.address = ctypes.addressof(self._places)


class _Plan:
    """What a launch over certain numbers of rows needs.

    Attributes:
        function: the address of the kernel.
        blocks: of threads.
        values: of all parameters, those that differ from call to call as 0.
        given: the positions of what the programs are given.
        scratch: (position, bytes before it) of the addresses of memory for sums; `nbytes` in all.
        counters: the same of those of counters.
        free: parameters that no call uses at the moment.
    """

    def __init__(self, function: int, shares: Sequence[Share], programs: Sequence[Program],
                 rows: Sequence[int]) -> None:
        self.function = function
        self.blocks = sum(s.blocks for s in shares)
        self.values: list[int] = []
        self.given: list[int] = []
        self.scratch: list[tuple[int, int]] = []
        self.counters: list[tuple[int, int]] = []
        self.nbytes = self.tiles = 0
        self.free: list[_Parameters] = []
        for its, program, count in zip(shares, programs, rows):
            self._add(its, program, count)

    def _add(self, its: Share, program: Program, rows: int) -> None:
        first = len(self.values)
        number = len(program.arrays) + len(program.arguments)
        self.given += range(first, first + number)
        self.values += [0] * number + [rows, its.blocks]
        if cuda_code.kind_of(program) != cuda_code.COLUMNS:
            return
        self.values += [its.splits, 0, 0]
        if its.splits > 1:
            self.scratch.append((len(self.values) - 2, self.nbytes))
            self.counters.append((len(self.values) - 1, 4 * self.tiles))
            self.nbytes += -(-its.scratch // 256) * 256
            self.tiles += its.tiles


class Programs:
    """Runs programs on the current GPU; one for each device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._kernels: dict[str, Any] = {}
        self._counters: dict[int, Any] = {}
        # Of their own: in CuPy's pool they would be parts of large blocks, and keep these.
        self._counters_pool = cupy.cuda.MemoryPool()
        self._lock = threading.Lock()

    def supports(self, program: Program) -> bool:
        """True if the program has a form on the device."""
        return cuda_code.supports(program)

    def is_array(self, value: Any) -> bool:
        """True for an array of the device."""
        return isinstance(value, self._cupy.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A new array of the device."""
        return self._cupy.ndarray(shape, numpy_dtype(dtype))

    def dense(self, array: Any) -> Any:
        """The array, or a copy of it, in C order."""
        return array if array.flags.c_contiguous else self._cupy.ascontiguousarray(array)

    def prepare(self, programs: tuple[Program, ...]) -> Launch:
        """What runs some programs, independent of each other, in one launch."""
        plans: dict[tuple[int, ...], _Plan] = {}

        def launch(rows: tuple[int, ...], arrays: Sequence[Sequence[Any]]) -> None:
            plan = plans.get(rows)
            if plan is None:
                if len(plans) >= tuning.CUDA_MOST_PLANS:
                    plans.clear()
                plan = plans[rows] = self._plan(programs, rows, arrays)
            self._run(plan, arrays)

        return launch

    def _compiled(self, write: Callable[[str], str], is_large: bool) -> int:
        """The address of the kernel that ``write(type of positions)`` writes; CuPy keeps its code
        in files."""
        text = write("long long" if is_large else "int")
        with self._lock:
            found = self._kernels.get(text)
            if found is None:
                found = self._kernels[text] = self._cupy.RawKernel(
                    text, "kernel", options=cuda_code.OPTIONS)
        return int(found.kernel.ptr)

    def elements(self, kernel: ElementKernel) -> Run:
        """What runs a kernel that is written out."""
        functions: dict[bool, int] = {}

        def launch(count: int, *given: Any) -> None:
            if not count:
                return
            is_large = max(count, *(getattr(g, "size", 0) for g in given)) >= tuning.CUDA_LARGE
            if is_large not in functions:
                functions[is_large] = self._compiled(kernel.text, is_large)
            parameters = _Parameters([self._word(g) for g in (*given, count)])
            blocks = min(-(-count // cuda_code.THREADS), tuning.CUDA_MOST_BLOCKS)
            self._launched(functions[is_large], blocks, self._cupy.cuda.get_current_stream().ptr,
                           parameters.address)

        return launch

    def _word(self, value: Any) -> int:
        """An array's address, or the bits of a number."""
        if isinstance(value, self._cupy.ndarray):
            return int(value.data.ptr)
        return value if isinstance(value, int) else _bits(value)

    @functools.cached_property
    def _launch_kernel(self) -> Callable[..., None]:
        """The driver's own call: CuPy's takes twice the time."""
        return importlib.import_module("cupy_backends.cuda.api.driver").launchKernel

    def _launched(self, function: int, blocks: int, stream: int, parameters: int) -> None:
        self._launch_kernel(function, blocks, 1, 1, cuda_code.THREADS, 1, 1, 0, stream,
                            parameters, 0)

    def _plan(self, programs: tuple[Program, ...], rows: tuple[int, ...],
              arrays: Sequence[Sequence[Any]]) -> _Plan:
        shares = [share(program, count) for program, count in zip(programs, rows)]
        is_large = any(count * p.columns >= tuning.CUDA_LARGE for p, count in zip(programs, rows))
        is_large = is_large or any(getattr(a, "size", 0) >= tuning.CUDA_LARGE
                                   for some in arrays for a in some)
        function = self._compiled(functools.partial(cuda_code.kernel_text, programs), is_large)
        return _Plan(function, shares, programs, rows)

    def _run(self, plan: _Plan, arrays: Sequence[Sequence[Any]]) -> None:
        stream = self._cupy.cuda.get_current_stream().ptr
        try:
            parameters = plan.free.pop()
        except IndexError:
            parameters = _Parameters(plan.values)
        slots = parameters.slots
        positions, array = iter(plan.given), self._cupy.ndarray
        for some in arrays:
            for value in some:
                is_array = isinstance(value, array)
                slots[next(positions)] = value.data.ptr if is_array else _bits(value)
        memory = None
        if plan.nbytes:
            # Kept until the kernel is launched: what takes it next on this stream runs later.
            memory = self._cupy.cuda.alloc(plan.nbytes)
            counters = self._counter(stream, plan.tiles)
            for (position, before), (place, start) in zip(plan.scratch, plan.counters):
                slots[position] = memory.ptr + before
                slots[place] = counters + start
        self._launched(plan.function, plan.blocks, stream, parameters.address)
        plan.free.append(parameters)

    def _counter(self, stream: int, count: int) -> int:
        """The address of counters, which are zero whenever no kernel of this stream runs."""
        with self._lock:
            found = self._counters.get(stream)
            if found is None or found.size < count:
                with self._cupy.cuda.using_allocator(self._counters_pool.malloc):
                    found = self._counters[stream] = self._cupy.zeros(
                        max(count, tuning.CUDA_COUNTERS), "uint32")
        return int(found.data.ptr)


def _bits(number: Any) -> int:
    """The bits of a NumPy scalar as the lower ones of a whole number."""
    return int.from_bytes(number.tobytes().ljust(8, b"\0"), "little", signed=True)
