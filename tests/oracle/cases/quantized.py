"""Cases of numbers that are quantized and come back."""

from __future__ import annotations

import numpy as np
from table import Table, family, scalar


@family
def rounded_and_back(table: Table) -> None:
    ranges = ((-1.5, 2.0), (-3.0, 1.0), (0.0, 2.5))
    for version in ("V2", "V3", "V4"):
        op = f"QuantizeAndDequantize{version}"
        for dtype in ("float32", "float64"):
            for axis in (-1, 0, 2):
                x = table.normal(dtype, (2, 3, 4), 2)
                for low, high in ranges:
                    size = () if axis < 0 else (x.shape[axis],)
                    bounds = {"input_min": np.full(size, low, dtype),
                              "input_max": np.full(size, high, dtype)}
                    for signed in (True, False):
                        for given in (True, False):
                            attrs = {"signed_input": signed, "range_given": given, "axis": axis,
                                     "narrow_range": signed and axis == 0}
                            bits: dict = {"num_bits": scalar(6)} if version == "V3" else {}
                            if version != "V3":
                                attrs |= {"num_bits": 5, "round_mode": (
                                    "HALF_UP" if low == 0 else "HALF_TO_EVEN")}
                            table.add(op, {"input": x, **bounds, **bits}, attrs, gradient=1,
                                      tolerance=4)
        flat = {"input": table.normal("float32", (3,)), "input_min": scalar(2, "float32"),
                "input_max": scalar(1, "float32")}
        if version == "V3":
            flat["num_bits"] = scalar(8)
        table.bad(op, flat, {"range_given": True}, label="range")
    table.add("QuantizeAndDequantizeV4Grad", {
        "gradients": table.normal("float32", (4, 3)), "input": table.normal("float32", (4, 3)),
        "input_min": scalar(-0.5, "float32"), "input_max": scalar(0.7, "float32")}, gradient=1)
