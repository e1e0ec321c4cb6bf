"""Row numbers that come at run time: the range check, and repeated rows one at a time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.host import memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels import late_errors
from hpcflow.kernels.common import device_rows
from hpcflow.kernels.common.parallel import block_of_copies, over_rows
from hpcflow.kernels.registry import invalid
from hpcflow.loops import compiling, form, llvm_plan, parallel_for, row_code
from hpcflow.shapes import format_shape


def check_rows(xp: Any, indices: Any, rows: int, wrong: str = "= {} is not in [0, {})",
               what: str = "indices") -> None:
    """Raise ``InvalidArgumentError`` naming the first index that is not in ``[0, rows)``; of
    indices on a device later (`late_errors`), as they wrap around until then.

    `wrong` says so, with places for the index and for `rows`; `what` is the name of the tensor.
    """
    if not indices.size:
        return
    if xp is not np and rows:
        flag = device_rows.outside(xp, indices, rows)
        late_errors.note(xp, (_unsigned(indices) >= rows).any() if flag is None else flag,
                         lambda: _not_a_row(xp, indices, rows, wrong, what))
    elif not are_rows(indices, rows):
        raise _not_a_row(xp, indices, rows, wrong, what)


_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_largest = np.maximum.reduce  # without what a method of arrays adds to it


def _unsigned(indices: Any) -> Any:
    """As unsigned numbers the negative ones are the largest, so one pass finds both kinds."""
    return indices.view(_UNSIGNED[indices.itemsize])


def are_rows(indices: np.ndarray, rows: int) -> bool:
    """True if all of `indices`, at least one, are in ``[0, rows)``."""
    return rows > 0 and int(_largest(_unsigned(indices), None)) < rows


def _not_a_row(xp: Any, indices: Any, rows: int, wrong: str, what: str) -> InvalidArgumentError:
    flat = indices.reshape(-1)
    bad = int(xp.flatnonzero((flat < 0) | (flat >= rows))[0])
    where = [int(i) for i in np.unravel_index(bad, indices.shape)]
    place = f"[{','.join(map(str, where))}]" if where else ""
    return invalid(f"{what}{place} {wrong.format(int(flat[bad]), rows)}")


def has_duplicates(xp: Any, indices: Any) -> bool:
    """True if some index occurs more than once."""
    if indices.size < tuning.INDICES_SMALL and xp is np:
        return len(set(indices.tolist())) != indices.size
    ordered = xp.sort(indices, axis=None)
    return bool((ordered[1:] == ordered[:-1]).any())


def occurrence_rounds(xp: Any, indices: Any) -> Iterator[Any]:
    """Positions in 1-D `indices` in rounds without duplicates: the first occurrence of every
    index, then the second, ...; the only round is None (all positions) if nothing is repeated."""
    if not has_duplicates(xp, indices):
        yield None
        return
    order = stable_order(xp, indices)
    ordered = indices[order]
    positions = xp.arange(ordered.size)
    starts = xp.concatenate([xp.zeros(1, positions.dtype),
                             xp.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    group = xp.searchsorted(starts, positions, side="right") - 1
    occurrence = positions - starts[group]
    by_round = stable_order(xp, occurrence)
    counts = xp.bincount(occurrence)
    start = 0
    for count in counts.tolist():
        # Within a round the rows are distinct: their order does not matter.
        yield order[by_round[start : start + count]]
        start += count


# What becomes of the arguments of the loops.
_TAKE = parallel_for.ROWS + parallel_for.WHOLE + parallel_for.ROWS


def combine_rows(ufunc: Any, target: np.ndarray, rows: Any, updates: Any,
                 otherwise: Callable[..., None] | None = None) -> None:
    """``target[rows[i]] = ufunc(target[rows[i]], updates[i])`` for every i, in that order.

    Args:
        ufunc: of two arguments.
        target: a matrix that is written, in C order.
        rows: row numbers, in range; they may be repeated.
        updates: a matrix with one row for each.
        otherwise: does the same of the same arguments, where there is no compiled loop.
    """
    otherwise = otherwise or _combine_in_rounds
    updates = np.ascontiguousarray(updates)  # the loop saves more than the copy costs
    found = _row_loop(ufunc, target, rows, updates)
    if found is None:
        otherwise(ufunc, target, rows, updates)
    elif found.function is not None:
        update_rows(found, [target], rows, updates, ())
    else:
        began = time.perf_counter()
        otherwise(ufunc, target, rows, updates)
        found.spent(time.perf_counter() - began)


def update_rows(found: compiling.Compiled, states: list, rows: Any, updates: Any,
                scalars: Sequence) -> None:
    """Run a loop of `row_code.updates` that there is, over arrays of any dims with rows in C order;
    ``TypeError``, before anything is written, where one of them lies or counts otherwise."""
    matrices = [a.reshape(len(a), -1) if a.ndim != 2 else a for a in (*states, updates)]
    if updates.nbytes < tuning.INDICES_LARGE_BYTES:
        found.function(*matrices[:-1], rows, matrices[-1], *scalars, 0, 1)  # type: ignore[misc]
        return
    parts = threads.pool().size
    uses = (parallel_for.WHOLE * (len(matrices) + 1 + len(scalars)) + parallel_for.START
            + parallel_for.WHOLE)
    parallel_for.run(found, parts, 1, uses,
                     [*matrices[:-1], rows, matrices[-1], *scalars, 0, parts])


def take_rows(params: np.ndarray, rows: Any) -> Any:
    """``params.take(rows, 0)`` in blocks, side by side, for parameters in C order.

    `rows` are a vector of row numbers in range.
    """
    out = memory.empty((len(rows), *params.shape[1:]), params.dtype)
    moved = 2 * params[:1].nbytes
    block_bytes = block_of_copies(len(rows), moved)
    found = _row_copies(params, rows)
    if found is not None and found.function is not None:
        # Of twice the size of others: nothing fetches the first rows of a block ahead.
        step = parallel_for.block_rows(len(rows), moved // 2)
        parallel_for.run(found, len(rows), step, _TAKE, [_words(out), _words(params), rows])
        return out

    def work(block: slice) -> None:
        # All numbers are in range: to clip them changes none, and saves a copy of the result.
        params.take(rows[block], 0, out[block], "clip")

    began = time.perf_counter()
    over_rows(len(rows), moved, work, block_bytes)
    if found is not None:
        found.spent(time.perf_counter() - began)
    return out


def _row_copies(params: np.ndarray, rows: Any) -> compiling.Compiled | None:
    """The loop that copies rows, which may yet have to be compiled; None if there is none."""
    if not (compiling.enabled() and params[:1].nbytes % _WORD == 0 and params.flags.aligned
            and params.dtype.kind != "O" and memory.address_of(params) % _WORD == 0
            and rows.flags.c_contiguous and rows.flags.aligned):
        return None
    return compiling.compiled(row_code.copies(compiling.name_of(rows.dtype)))


_WORD = 8  # bytes


def _words(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(len(rows), -1).view(np.uint64)


def _row_loop(ufunc: Any, target: np.ndarray, rows: Any, updates: Any) -> compiling.Compiled | None:
    """The loop that does the same, which may yet have to be compiled; None if there is none."""
    if not (compiling.enabled() and target.dtype == updates.dtype and target.flags.carray
            and updates.flags.c_contiguous and updates.flags.aligned and rows.flags.c_contiguous):
        return None
    program = _row_updates(ufunc.__name__, compiling.name_of(target.dtype),
                           compiling.name_of(rows.dtype))
    return None if program is None else compiling.compiled(program)


@functools.lru_cache(maxsize=256)
def _row_updates(ufunc: str, dtype: str, row_dtype: str) -> compiling.Loop | None:
    if not llvm_plan.supports_exactly(ufunc, dtype):
        return None
    b = form.Builder(1)
    target, updates = b.array(dtype), b.array(dtype)
    made = b.apply(ufunc, b.load(target, form.DENSE), b.load(updates, form.DENSE))
    b.store(target, form.DENSE, made)
    return row_code.updates(row_dtype, b.program())


def _combine_in_rounds(ufunc: Any, target: np.ndarray, rows: Any, updates: Any) -> None:
    """As :func:`combine_rows`: the first occurrence of every row, then the second, ..."""
    if target.shape[1] < tuning.INDICES_WIDE:
        _combine_elements(ufunc, target, rows, updates)
        return
    waiting = np.arange(len(rows))
    first = np.empty(len(target), np.intp)
    for _ in range(tuning.INDICES_MOST_ROUNDS):
        if not waiting.size:
            return
        # Of equal numbers the last to be written stays: written backwards, the first to occur.
        mine = rows[waiting]
        first[mine[::-1]] = waiting[::-1]
        is_first = first[mine] == waiting
        if is_first.all():
            _combine_distinct(ufunc, target, mine, updates, waiting)
            return
        _combine_distinct(ufunc, target, mine[is_first], updates, waiting[is_first])
        waiting = waiting[~is_first]
    _combine_elements(ufunc, target, rows[waiting], updates[waiting])


def _combine_distinct(ufunc: Any, target: np.ndarray, rows: Any, updates: Any,
                      positions: Any) -> None:
    """As :func:`combine_rows` for rows of which none occurs twice: in blocks, side by side."""
    everything = len(positions) == len(updates)

    def work(block: slice) -> None:
        where = rows[block]
        more = updates[block] if everything else updates.take(positions[block], 0)
        values = target.take(where, 0)
        target[where] = ufunc(values, more, out=values)

    over_rows(len(rows), 3 * updates[:1].nbytes, work)


def _combine_elements(ufunc: Any, target: np.ndarray, rows: Any, updates: Any) -> None:
    """As ``ufunc.at(target, rows, updates)``, by elements, for which NumPy has a fast path."""
    width = target.shape[1]
    flat, columns = target.reshape(-1), np.arange(width)
    step = max(1, tuning.INDICES_AT_ONCE // max(1, width))
    for start in range(0, len(rows), step):
        part = rows[start : start + step, np.newaxis].astype(np.intp)
        elements = (part * width + columns).reshape(-1)
        ufunc.at(flat, elements, updates[start : start + step].reshape(-1))


def stable_order(xp: Any, values: Any) -> Any:
    """The positions of `values` in sorted order, those of equal values in their own."""
    if xp is np:
        return np.argsort(values, kind="stable")
    return xp.argsort(values)  # CuPy sorts stably


def flat_positions(xp: Any, coordinates: Any, dims: tuple[int, ...]) -> Any:
    """Row-major positions of `coordinates` (n, K) in an array of K `dims`.

    Raises ``InvalidArgumentError`` for coordinates out of range.
    """
    limits = xp.asarray(np.array(dims, coordinates.dtype))
    outside = ((coordinates < 0) | (coordinates >= limits)).any(axis=-1)

    def error() -> InvalidArgumentError:
        i = int(xp.flatnonzero(outside)[0])
        return invalid(f"indices[{i}] = {[int(c) for c in coordinates[i]]} does not index into "
                       f"shape {format_shape(dims)}")

    if xp is not np and all(dims):
        late_errors.note(xp, outside.any(), error)
    elif outside.any():
        raise error()
    strides = np.cumprod([1, *dims[:0:-1]], dtype=np.int64)[::-1]
    if not dims:
        return xp.zeros(len(coordinates), np.int64)
    return coordinates.astype(np.int64) @ xp.asarray(np.ascontiguousarray(strides))
