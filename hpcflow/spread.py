"""Compiled loops over rows, spread over the cores without the interpreter.

To hand a part to a thread of the interpreter's takes as long as a pass over a megabyte: it has to
wake up, and to get the interpreter's lock. Where there is OpenMP (``openmp``), a second function is
compiled for a loop, which keeps the arguments in a table and lets a team of threads take blocks of
rows from a counter. Without it the parts are handed to ``threads``; the results are the same.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import openmp, threads

if TYPE_CHECKING:
    from hpcflow import jit

#: What becomes of an argument: its rows of the block, all of it, or the numbers of the first row of
#: the block and of the first after it.
ROWS, WHOLE, START, STOP = "rwst"

# Below so many bytes a second thread costs more than it brings.
LARGE_BYTES = 1 << 20
# Blocks are so many per thread, where they are of sizes between these: a thread that is late, or
# that the machine lets wait, takes fewer of them.
_BLOCKS_PER_THREAD = 8
_LEAST_BYTES, _MOST_BYTES = 1 << 15, 1 << 18


def block_rows(rows: int, row_bytes: int) -> int:
    """How many rows a block should have, of which each takes `row_bytes`: all if they are few."""
    total = rows * row_bytes
    if total < LARGE_BYTES or threads.pool().size == 1:
        return rows
    size = min(max(total // (_BLOCKS_PER_THREAD * threads.pool().size), _LEAST_BYTES), _MOST_BYTES)
    step = max(1, size // row_bytes)
    return step - step % 16 if step >= 64 else step


def run(found: jit.Compiled, rows: int, step: int, uses: str, arguments: Sequence) -> None:
    """Call ``found.function`` for blocks that cover `rows` rows; returns when all are done.

    Args:
        found: a loop that is compiled and returns nothing.
        rows: how many there are.
        step: the rows of a block; where START is used, of just these blocks.
        uses: a character for each of the arguments; see above.
        arguments: of the loop. In the place of START and STOP is any number.
    """
    pool = threads.pool()
    if rows > step and pool.size > 1:
        team, entry = openmp.team() if threads.may_spin() else None, found.entry
        if entry is None and team is not None:
            found.spread()
        elif team is not None and pool.take():
            try:
                entry(team.address, max(team.threads, pool.size), pool.size, rows, step,  # type: ignore[misc]
                      *_masks(uses), *arguments)
            finally:
                pool.give_back()
            return
    if START not in uses:
        step *= max(1, rows // step // (4 * pool.size))  # fewer blocks, where each costs more
    pool.run(lambda k: _run_block(found.function, k * step, min(k * step + step, rows), uses,
                                  arguments), -(-rows // step))


def run_rows(found: jit.Compiled, arrays: Sequence, more: Sequence = ()) -> None:
    """Call ``found.function(*arrays, *more)`` for blocks of the rows of all `arrays`."""
    rows, row_bytes = len(arrays[0]), sum([a[:1].nbytes for a in arrays])
    step = block_rows(rows, row_bytes)
    if step == rows:
        found.function(*arrays, *more)  # type: ignore[misc]
    else:
        run(found, rows, step, ROWS * len(arrays) + WHOLE * len(more), [*arrays, *more])


def _run_block(loop: Any, start: int, stop: int, uses: str, arguments: Sequence) -> None:
    loop(*[a[start:stop] if use == ROWS else a if use == WHOLE else start if use == START else stop
           for use, a in zip(uses, arguments)])


@functools.lru_cache(maxsize=1024)
def _masks(uses: str) -> tuple[int, int]:
    """A bit for each argument that is ROWS or START, and for each that is STOP."""
    return (sum(1 << i for i, use in enumerate(uses) if use in (ROWS, START)),
            sum(1 << i for i, use in enumerate(uses) if use == STOP))


# ---------------------------------------------------------------- what is compiled

# Of the table: the next row, the threads that have come and that may work, all rows, those of a
# block, and where the floating-point numbers are. The arguments follow: of an array its address,
# the bytes from row to row, and its dims, the first -1 if it is cut; of a whole number itself, and
# how often the first row and the end of the block are added to it.
_NEXT, _COME, _SIZE, _ROWS, _STEP, _REALS, _FIRST = range(7)


def entry_of(loop: Any) -> Callable | None:
    """``f(team, threads, size, rows, step, firsts, stops, *arguments)`` for a compiled loop; None
    if it takes other arguments than arrays in C order and numbers."""
    numba = importlib.import_module("numba")
    types = numba.types
    kinds = loop.nopython_signatures[0].args
    if not all([_is_plain(kind, types) for kind in kinds]):
        return None
    scope = _helpers() | {"loop": loop}
    places, size = _places(kinds, types)
    exec(_part_text(kinds, types, places, size), scope)
    part = numba.cfunc(types.void(types.voidptr))(scope["part"])
    exec(_enter_text(kinds, types, places, size), scope)
    signature = types.int64(*[types.int64] * 7, *kinds)
    entry = numba.njit(signature, nogil=True)(scope["enter_of"](part.address))
    return functools.partial(_enter, entry, part)


def _enter(entry: Callable, part: Any, *arguments: Any) -> None:
    """Keeps `part`, whose address `entry` has."""
    entry(*arguments)


def _is_plain(kind: Any, types: Any) -> bool:
    if isinstance(kind, types.Array):
        return kind.layout == "C" and kind.ndim > 0 and isinstance(
            kind.dtype, (types.Integer, types.Float, types.Boolean))
    return isinstance(kind, types.Float) or isinstance(kind, types.Integer) and kind.signed


def _places(kinds: Sequence, types: Any) -> tuple[list[int], int]:
    """Where the table has each argument, or the other table has each floating-point number; and
    the size of the tables."""
    found, words, reals = [], _FIRST, 0
    for kind in kinds:
        if isinstance(kind, types.Float):
            found.append(reals)
            reals += 1
        else:
            found.append(words)
            words += 2 + kind.ndim if isinstance(kind, types.Array) else 3
    return found, max(words, reals)


def _part_text(kinds: Sequence, types: Any, places: list[int], size: int) -> str:
    """``part(table)``: what each thread of a team does, blocks until there are no more."""
    lines = ["def part(data):", f"    table = carray(data, ({size},), np.int64)",
             f"    if add(table.ctypes.data + {8 * _COME}, 1) >= table[{_SIZE}]:", "        return",
             f"    reals = carray(pointer(table[{_REALS}]), ({size},), np.float64)",
             "    while True:",
             f"        start = add(table.ctypes.data, table[{_STEP}])",
             f"        if start >= table[{_ROWS}]:", "            return",
             f"        stop = min(start + table[{_STEP}], table[{_ROWS}])"]
    for i, (kind, place) in enumerate(zip(kinds, places)):
        if isinstance(kind, types.Array):
            dims = "".join(f"table[{place + 2 + d}], " for d in range(1, kind.ndim))
            name = "bool_" if isinstance(kind.dtype, types.Boolean) else kind.dtype.name
            length = f"stop - start if table[{place + 2}] < 0 else table[{place + 2}]"
            address = f"pointer(table[{place}] + start * table[{place + 1}])"
            lines.append(f"        a{i} = carray({address}, ({length}, {dims}), np.{name})")
        elif isinstance(kind, types.Float):
            lines.append(f"        a{i} = np.{kind.name}(reals[{place}])")
        else:
            more = f"table[{place + 1}] * start + table[{place + 2}] * stop"
            lines.append(f"        a{i} = np.{kind.name}(table[{place}] + {more})")
    lines.append(f"        loop({', '.join(f'a{i}' for i in range(len(kinds)))})")
    return "\n".join(lines) + "\n"


def _enter_text(kinds: Sequence, types: Any, places: list[int], size: int) -> str:
    """``enter_of(address)`` makes the function that fills the table and lets the team do the other
    one, which has this address."""
    names = "".join(f", a{i}" for i in range(len(kinds)))
    lines = ["def enter_of(address):",
             f"  def enter(team, threads, size, rows, step, firsts, stops{names}):",
             f"    table, reals = np.empty({size}, np.int64), np.empty({size}, np.float64)",
             f"    table[{_NEXT}], table[{_COME}], table[{_SIZE}] = 0, 0, size",
             f"    table[{_ROWS}], table[{_STEP}] = rows, step",
             f"    table[{_REALS}] = reals.ctypes.data"]
    for i, (kind, place) in enumerate(zip(kinds, places)):
        lines.append(f"    first, stop = (firsts >> {i}) & 1, (stops >> {i}) & 1")
        if isinstance(kind, types.Array):
            lines += [f"    table[{place}], table[{place + 1}] = a{i}.ctypes.data, 0"]
            lines += [f"    table[{place + 2 + d}] = a{i}.shape[{d}]" for d in range(kind.ndim)]
            lines += ["    if first:",
                      f"        table[{place + 1}], table[{place + 2}] = a{i}.strides[0], -1"]
        elif isinstance(kind, types.Float):
            lines.append(f"    reals[{place}] = a{i}")
        else:
            lines += [f"    table[{place}] = a{i} * (1 - first - stop)",
                      f"    table[{place + 1}], table[{place + 2}] = first, stop"]
    # The tables are looked at afterwards so that they live until then.
    lines += ["    parallel(team, address, table.ctypes.data, threads)",
              "    return table.size + reals.size", "  return enter"]
    return "\n".join(lines) + "\n"


@functools.lru_cache(maxsize=1)
def _helpers() -> dict[str, Any]:
    """What the texts call: ``add(address, number)`` adds to a number that several threads add to,
    and returns what it was; ``pointer(address)``; ``parallel(team, function, table, threads)``."""
    numba = importlib.import_module("numba")
    ir = importlib.import_module("llvmlite.ir")
    types, number, count = numba.types, ir.IntType(64), ir.IntType(32)
    byte = ir.IntType(8).as_pointer()
    parallel_kind = ir.FunctionType(ir.VoidType(), [byte, byte, count, count])

    def add(_context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], number.as_pointer())
        return builder.atomic_rmw("add", place, arguments[1], "monotonic")

    def pointer(_context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], byte)

    def parallel(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        team, function, table, threads = arguments
        builder.call(builder.inttoptr(team, parallel_kind.as_pointer()), [
            builder.inttoptr(function, byte), builder.inttoptr(table, byte),
            builder.trunc(threads, count), count(0)])
        return context.get_dummy_value()

    one, intrinsic = types.int64, numba.extending.intrinsic
    return {"np": np, "carray": numba.carray,
            "add": intrinsic(lambda _, place, more: (one(one, one), add)),
            "pointer": intrinsic(lambda _, address: (types.voidptr(one), pointer)),
            "parallel": intrinsic(lambda _, team, function, table, threads: (
                types.void(one, one, one, one), parallel))}
