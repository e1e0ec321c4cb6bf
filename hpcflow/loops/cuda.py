"""Runs programs of the form on a CUDA GPU through CuPy: kernels, their sizes, scratch memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import cuda_code
from hpcflow.loops.form import Program
from hpcflow.loops.meanings import numpy_dtype

#: ``launch(rows, arrays)``: runs programs that were prepared. `rows` has the number of rows of
#: each, `arrays` what each is given in turn: its arrays, in C order, then its numbers.
Launch = Callable[[tuple[int, ...], Sequence[Sequence[Any]]], None]


class Programs(Protocol):
    """What runs programs on a device."""

    def supports(self, program: Program) -> bool:
        """True if the program has a form on the device."""

    def is_array(self, value: Any) -> bool:
        """True for an array of the device."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A new array of the device."""

    def dense(self, array: Any) -> Any:
        """The array, or a copy of it, in C order."""

    def prepare(self, programs: tuple[Program, ...]) -> Launch:
        """What runs some programs, independent of each other, in one launch."""


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
        nbytes = 8 * splits * program.columns * cuda_code.reductions_of_columns(program)
        return Share(tiles * splits, splits, tiles, nbytes)
    per_block, size = cuda_code.THREADS, rows * program.columns
    if kind == cuda_code.ROWS:
        per_block, size = cuda_code.THREADS // cuda_code.lanes_of(program.columns), rows
    return Share(max(1, min(-(-size // per_block), tuning.CUDA_MOST_BLOCKS)))


class _Plan(NamedTuple):
    """What a launch over certain numbers of rows needs."""

    kernel: Any
    blocks: int
    sizes: list[list[int]]  # of each program: rows, blocks, splits
    scratch: list[int]  # bytes of each program
    tiles: list[int]


class CudaPrograms:
    """Runs programs on the current GPU; one for each device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._kernels: dict[str, Any] = {}
        self._counters: dict[int, Any] = {}
        self._lock = threading.Lock()

    def supports(self, program: Program) -> bool:
        """See `Programs`."""
        return cuda_code.supports(program)

    def is_array(self, value: Any) -> bool:
        """See `Programs`."""
        return isinstance(value, self._cupy.ndarray)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """See `Programs`."""
        return self._cupy.ndarray(shape, numpy_dtype(dtype))

    def dense(self, array: Any) -> Any:
        """See `Programs`."""
        return array if array.flags.c_contiguous else self._cupy.ascontiguousarray(array)

    def prepare(self, programs: tuple[Program, ...]) -> Launch:
        """See `Programs`."""
        plans: dict[tuple[int, ...], _Plan] = {}

        def launch(rows: tuple[int, ...], arrays: Sequence[Sequence[Any]]) -> None:
            plan = plans.get(rows)
            if plan is None:
                if len(plans) >= tuning.CUDA_MOST_PLANS:
                    plans.clear()
                plan = plans[rows] = self._plan(programs, rows, arrays)
            self._run(plan, arrays)

        return launch

    def kernel(self, programs: tuple[Program, ...], is_large: bool) -> Any:
        """The kernel of some programs, compiled when it is first run; CuPy keeps it in files."""
        text = cuda_code.kernel_text(programs, "long long" if is_large else "int")
        with self._lock:
            found = self._kernels.get(text)
            if found is None:
                found = self._kernels[text] = self._cupy.RawKernel(
                    text, "kernel", options=cuda_code.OPTIONS)
        return found

    def _plan(self, programs: tuple[Program, ...], rows: tuple[int, ...],
              arrays: Sequence[Sequence[Any]]) -> _Plan:
        shares = [share(program, count) for program, count in zip(programs, rows)]
        is_large = any(count * p.columns >= tuning.CUDA_LARGE for p, count in zip(programs, rows))
        is_large = is_large or any(getattr(a, "size", 0) >= tuning.CUDA_LARGE
                                   for some in arrays for a in some)
        sizes = [[count, s.blocks] + [s.splits] * (cuda_code.kind_of(p) == cuda_code.COLUMNS)
                 for p, count, s in zip(programs, rows, shares)]
        return _Plan(self.kernel(programs, is_large), sum(s.blocks for s in shares), sizes,
                     [s.scratch for s in shares], [s.tiles for s in shares])

    def _run(self, plan: _Plan, arrays: Sequence[Sequence[Any]]) -> None:
        nbytes = sum(plan.scratch)
        # Kept until the kernel is launched: what takes the memory next on this stream runs later.
        memory = self._cupy.cuda.alloc(nbytes) if nbytes else None
        address = 0 if memory is None else memory.ptr
        counter = self._counter(sum(plan.tiles)) if nbytes else 0
        values: list[Any] = []
        for given, sizes, scratch, tiles in zip(arrays, plan.sizes, plan.scratch, plan.tiles):
            values += given
            values += sizes
            if len(sizes) > 2:
                values += (address, counter)
                address += scratch
                counter += 4 * tiles
        plan.kernel((plan.blocks,), (cuda_code.THREADS,), tuple(values))

    def _counter(self, count: int) -> int:
        """The address of counters, which are zero whenever no kernel of this stream runs."""
        stream = self._cupy.cuda.get_current_stream().ptr
        with self._lock:
            found = self._counters.get(stream)
            if found is None or found.size < count:
                found = self._counters[stream] = self._cupy.zeros(
                    max(count, tuning.CUDA_COUNTERS), "uint32")
        return int(found.data.ptr)
