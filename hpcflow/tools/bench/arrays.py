"""``bench arrays``: ops that move, index, sort and reduce arrays, as sessions run them.

A peer with the same graph API runs the very same file (`programs.arrays`) in turns with hpcflow.
The table is sorted: the largest ratio comes first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import hpcflow
from hpcflow.tools.bench.contestants import Local, Peer, core_count
from hpcflow.tools.bench.kernels import FASTER, row_of, with_summary
from hpcflow.tools.bench.programs import arrays as program
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, measured, plan_of
from hpcflow.tools.table import Row


class Case(NamedTuple):
    """A line of the table: a kind of `programs.arrays`, the array, and further arguments."""

    kind: str
    dims: tuple[int, ...]
    args: dict[str, Any]
    dtype: str = "float32"

    @property
    def title(self) -> str:
        """The title of its line in the table."""
        shape = "x".join(map(str, self.dims))
        words = [f"{name}={str(value).replace(' ', '')}" for name, value in self.args.items()]
        return " ".join([self.kind, f"{self.dtype}[{shape}]", *words])


_ROWS, _VECTOR, _CUBE, _IMAGES = (2048, 1024), (2_097_152,), (128, 128, 128), (32, 64, 64, 16)
_FEW_ROWS, _CUBELET, _FEW_IMAGES = (16, 32), (8, 8, 8), (2, 8, 8, 4)

# (kind, a large array, a small one, arguments)
_TABLE: tuple[tuple[str, tuple, tuple, dict[str, Any]], ...] = (
    ("transpose", _ROWS, _FEW_ROWS, {"perm": [1, 0]}),
    ("transpose", _CUBE, _CUBELET, {"perm": [0, 2, 1]}),
    ("transpose", _CUBE, _CUBELET, {"perm": [2, 1, 0]}),
    ("transpose", _CUBE, _CUBELET, {"perm": [1, 0, 2]}),
    ("transpose", _IMAGES, _FEW_IMAGES, {"perm": [0, 3, 1, 2]}),
    ("transpose", _IMAGES, _FEW_IMAGES, {"perm": [0, 2, 3, 1]}),
    ("reverse", _ROWS, _FEW_ROWS, {"axis": [0]}),
    ("reverse", _ROWS, _FEW_ROWS, {"axis": [1]}),
    ("reverse", _ROWS, _FEW_ROWS, {"axis": [0, 1]}),
    ("tile", _ROWS, _FEW_ROWS, {"multiples": [2, 1]}),
    ("tile", _ROWS, _FEW_ROWS, {"multiples": [1, 2]}),
    ("tile", (2048, 16), _FEW_ROWS, {"multiples": [1, 64]}),
    ("tile", _CUBE, _CUBELET, {"multiples": [1, 2, 1]}),
    ("concat", _ROWS, _FEW_ROWS, {"axis": 0}),
    ("concat", _ROWS, _FEW_ROWS, {"axis": 1}),
    ("concat", (2048, 16), _FEW_ROWS, {"axis": 1, "inputs": 64}),
    ("stack", _ROWS, _FEW_ROWS, {"axis": 0}),
    ("stack", _ROWS, _FEW_ROWS, {"axis": 1}),
    ("stack", _ROWS, _FEW_ROWS, {"axis": 2}),
    ("unstack", (16, 131_072), _FEW_ROWS, {"axis": 0}),
    ("unstack", (131_072, 16), _FEW_ROWS, {"axis": 1}),
    ("split", _ROWS, _FEW_ROWS, {"axis": 0, "parts": 4}),
    ("split", _ROWS, _FEW_ROWS, {"axis": 1, "parts": 4}),
    ("pad", _ROWS, _FEW_ROWS, {"paddings": [[1, 1], [1, 1]]}),
    ("pad", _IMAGES, _FEW_IMAGES, {"paddings": [[0, 0], [1, 1], [1, 1], [0, 0]]}),
    ("pad_value", _ROWS, _FEW_ROWS, {"paddings": [[1, 1], [1, 1]]}),
    ("pad", _ROWS, _FEW_ROWS, {"paddings": [[1, 1], [1, 1]], "mode": "REFLECT"}),
    ("pad", _IMAGES, _FEW_IMAGES, {"paddings": [[0, 0], [1, 1], [1, 1], [0, 0]],
                                     "mode": "SYMMETRIC"}),
    ("slice", _ROWS, _FEW_ROWS, {"begin": [1, 1], "size": [-1, -1]}),
    ("every_second", _ROWS, _FEW_ROWS, {"axis": 0}),
    ("every_second", _ROWS, _FEW_ROWS, {"axis": 1}),
    ("strided_slice_grad", (1024, 512), _FEW_ROWS, {"step": 2}),
    ("roll", _ROWS, _FEW_ROWS, {"shift": 3, "axis": 1}),
    ("gather", _ROWS, _FEW_ROWS, {"count": 2048}),
    ("gather", _ROWS, _FEW_ROWS, {"count": 1024, "axis": 1}),
    ("gather", _VECTOR, (512,), {"count": 1_000_000}),
    ("gather_nd", _ROWS, _FEW_ROWS, {"count": 2048, "depth": 1}),
    ("gather_nd", _ROWS, _FEW_ROWS, {"count": 1_000_000, "depth": 2}),
    ("batch_gather", _ROWS, _FEW_ROWS, {"count": 256}),
    ("scatter_nd", _ROWS, _FEW_ROWS, {"rows": 2048}),
    ("scatter_nd", (1_000_000,), (512,), {"rows": 2_000_000}),
    ("one_hot", (2048,), (16,), {"depth": 1024}),
    ("one_hot", (2048,), (16,), {"depth": 1024, "axis": 0}),
    ("one_hot", (200_000,), (16,), {"depth": 10}),
    ("where", _ROWS, _FEW_ROWS, {}),
    ("select", _ROWS, _FEW_ROWS, {}),
    ("boolean_mask", _ROWS, _FEW_ROWS, {}),
    ("unique", _VECTOR, (512,), {"limit": 1000}),
    ("unique", _VECTOR, (512,), {"limit": 1_000_000}),
    ("top_k", _ROWS, _FEW_ROWS, {"k": 1}),
    ("top_k", _ROWS, _FEW_ROWS, {"k": 10}),
    ("top_k", _VECTOR, (512,), {"k": 100}),
    ("in_top_k", _ROWS, _FEW_ROWS, {"k": 5}),
    ("bincount", _VECTOR, (512,), {"limit": 1000}),
    ("histogram", _VECTOR, (512,), {"bins": 100}),
    ("cumsum", _ROWS, _FEW_ROWS, {"axis": 0}),
    ("cumsum", _ROWS, _FEW_ROWS, {"axis": 1}),
    ("cumsum", _ROWS, _FEW_ROWS, {"axis": 1, "exclusive": True, "reverse": True}),
    ("cumsum", _VECTOR, (512,), {"axis": 0}),
    ("cumprod", _ROWS, _FEW_ROWS, {"axis": 1}),
    *((("reduce", dims, small, {"name": name} | ({} if axis is None else {"axis": axis}))
       for name in ("sum", "prod", "max")
       for dims, small, axis in ((_ROWS, _FEW_ROWS, None), (_ROWS, _FEW_ROWS, 0),
                                 (_ROWS, _FEW_ROWS, 1),
                                 (_CUBE, _CUBELET, 1), (_IMAGES, _FEW_IMAGES, [0, 1, 2]),
                                 (_IMAGES, _FEW_IMAGES, [1, 2]), ((131_072, 16), _FEW_ROWS, 1)))),
    ("reduce", _ROWS, _FEW_ROWS, {"name": "mean", "axis": 0}),
    ("reduce", _ROWS, _FEW_ROWS, {"name": "mean", "axis": 1}),
    ("reduce", _IMAGES, _FEW_IMAGES, {"name": "mean", "axis": [1, 2]}),
    ("reduce", _ROWS, _FEW_ROWS, {"name": "min", "axis": 0}),
    ("arg", _ROWS, _FEW_ROWS, {"name": "max", "axis": 0}),
    ("arg", _ROWS, _FEW_ROWS, {"name": "max", "axis": 1}),
    ("arg", _CUBE, _CUBELET, {"name": "min", "axis": 1}),
    ("l2_loss", _VECTOR, (512,), {}),
    ("add_n", _ROWS, _FEW_ROWS, {"inputs": 4}),
    *(("segment", _ROWS, _FEW_ROWS, {"name": name, "count": 100})
       for name in ("sum", "mean", "prod", "max", "min")),
    ("segment", (1_000_000,), (512,), {"name": "sum", "count": 1000}),
    *(("unsorted", _ROWS, _FEW_ROWS, {"name": name, "count": 100}) for name in ("sum", "max")),
    ("unsorted", (1_000_000,), (512,), {"name": "sum", "count": 1000}),
    *(("sparse_segment", _ROWS, _FEW_ROWS, {"name": name, "count": 100})
       for name in ("sum", "mean")),
    ("space_to_depth", _IMAGES, _FEW_IMAGES, {"block": 2}),
    ("depth_to_space", _IMAGES, _FEW_IMAGES, {"block": 2}),
    ("space_to_batch", _IMAGES, _FEW_IMAGES, {"block": 2}),
    ("batch_to_space", _IMAGES, (4, 8, 8, 4), {"block": 2}),
    ("patches", _IMAGES, _FEW_IMAGES, {"size": 4}),
    ("cast", _ROWS, _FEW_ROWS, {"to": "int32"}),
    ("cast", _ROWS, _FEW_ROWS, {"to": "float64"}),
    ("cast", _ROWS, _FEW_ROWS, {"to": "bool"}),
    ("fill", _ROWS, _FEW_ROWS, {}),
    ("diag", (16, 362), _FEW_ROWS, {}),
    ("diag_part", (8, 512, 512), _CUBELET, {}),
    ("band", _ROWS, _FEW_ROWS, {"below": 5, "above": 5}),
    ("partition", _ROWS, _FEW_ROWS, {"parts": 4}),
    ("stitch", _ROWS, _FEW_ROWS, {"parts": 4}),
    ("reverse_sequence", _ROWS, _FEW_ROWS, {}),
    ("sequence_mask", (2048,), (16,), {"limit": 1024}),
    ("invert", (1_000_000,), (512,), {}),
    ("sparse_to_dense", (1_000_000,), (512,), {"size": 2_000_000}),
)

_OTHER_TYPES = ("int32", "int64", "float64", "uint8", "bool")
_NUMBERS_ONLY = ("reduce", "arg", "cumsum", "top_k", "segment", "unsorted", "scatter_nd")
# Of the kinds that are measured in other types too, how many of their cases.
_IN_OTHER_TYPES = {"transpose": 2, "reverse": 2, "tile": 2, "concat": 2, "stack": 3, "pad": 1,
                   "slice": 1, "every_second": 2, "gather": 3, "gather_nd": 2, "scatter_nd": 1,
                   "select": 1, "boolean_mask": 1, "top_k": 2, "cumsum": 2,
                   "reduce": 21, "arg": 2, "segment": 1, "unsorted": 1, "space_to_depth": 1,
                   "stitch": 1, "partition": 1, "roll": 1}


def _cases() -> Iterator[Case]:
    seen: dict[str, int] = {}
    for kind, large, small, args in _TABLE:
        yield Case(kind, large, args)
        yield Case(kind, small, args)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= _IN_OTHER_TYPES.get(kind, 0):
            for dtype in _OTHER_TYPES:
                if dtype != "bool" or kind not in _NUMBERS_ONLY:
                    yield Case(kind, large, args, dtype)
    yield Case("reduce", _ROWS, {"name": "any", "axis": 0}, "bool")
    yield Case("reduce", _ROWS, {"name": "all", "axis": 1}, "bool")
    yield Case("cast", _ROWS, {"to": "float32"}, "uint8")
    yield Case("cast", _ROWS, {"to": "float32"}, "bool")


CASES = tuple(_cases())


def run(options: Options) -> list[Row]:
    """Measure every case with hpcflow and the peers in alternation."""
    chosen = with_title(first_of_each_kind() if options.quick else CASES, options)
    # Many cases with few rounds each: the table is to find what is slow.
    plan = plan_of(options) if options.quick else Plan(rounds=5, block_seconds=0.06)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(name, python, "arrays"))
                 for name, python in options.peers.items()]
        rows = [measure_case(case, peers, plan) for case in chosen]
    rows.sort(key=lambda row: -(row[FASTER] or 0))
    return with_summary(rows)


def first_of_each_kind() -> list[Case]:
    """A small case of each kind."""
    found: dict[str, Case] = {}
    for kind, _, small, args in _TABLE:
        found.setdefault(kind, Case(kind, small, args))
    return list(found.values())


def measure_case(case: Case, peers: list[Peer], plan: Plan) -> Row:
    """The line of one case."""
    options = {"kind": case.kind, "dims": case.dims, "dtype": case.dtype, "args": case.args,
               "threads": core_count()}
    ours = Local(OURS, *program.open_case(hpcflow, case.title, options))
    others = [peer.open(case.title, options) for peer in peers]
    return row_of(case.title, measured(ours, others, peers, plan))
