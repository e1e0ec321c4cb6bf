"""What a check has measured, as the rates of a GPU that the simulator takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from hpcflow.compiler.distribute.costs import Rates
from hpcflow.tools.gpu_check.results import Row

# Field of the rates -> the row of the stage ``micro`` that has it, and the unit of its number.
_ROWS = {"matrix_flops": ("float32 product", "G_per_s", 1e9),
         "vector_flops": ("element-wise", "G_per_s", 1e9),
         "memory_bandwidth": ("copy on GPU", "G_per_s", 1e9),
         "op_overhead": ("launch", "us", 1e-6), "memory": ("memory", "bytes", 1.0)}


def rates_of(rows: Iterable[Row]) -> Rates | None:
    """The rates of the GPU that was checked; None if they were not all measured."""
    micro = {r.get("name"): r for r in rows if r["stage"] == "micro" and not r.get("failed")}
    try:
        return Rates(**{field: micro[name][key] * unit
                        for field, (name, key, unit) in _ROWS.items()})
    except KeyError:
        return None


def save(rates: Rates, path: Path) -> None:
    """Write a file that ``simulate --measure FILE --gpu FILE`` reads."""
    path.write_text(json.dumps(rates._asdict(), indent=2) + "\n", encoding="utf-8")


def load(path: Path) -> Rates:
    """Read such a file. Raises ``ValueError`` for another one, ``OSError`` if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rates = Rates(**{k: float(v) for k, v in found.items()})
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{path} does not hold the rates of a GPU that gpu-check writes") from None
    if set(found) != set(Rates._fields) or min(rates) <= 0:
        raise ValueError(f"{path} must have {', '.join(Rates._fields)}, all of them above 0")
    return rates
