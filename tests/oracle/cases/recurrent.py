"""Cases of recurrent cells, and sequences of them, that are one op."""

from __future__ import annotations

import itertools

import numpy as np
from table import Table, family

LIMITS = -1.0, 0.4  # of the memory; none for a negative one
SIZES = ((3, 4, 6), (1, 1, 1), (5, 7, 32))  # rows, inputs, units
PARTS = ("i", "cs", "f", "o", "ci", "co")


def lstm(table: Table, dtype: str, rows: int, size: int, units: int, *steps: int) -> dict:
    """The inputs of a cell, or of a sequence."""
    shapes = {"x": (*steps, rows, size), "cs_prev": (rows, units), "h_prev": (rows, units),
              "w": (size + units, 4 * units), "wci": (units,), "wcf": (units,), "wco": (units,),
              "b": (4 * units,)}
    return {name: table.normal(dtype, shape, 0.5) for name, shape in shapes.items()}


@family
def lstm_cells(table: Table) -> None:
    for dtype in table.dtypes("LSTMBlockCell"):
        for sizes, peeps, clip in itertools.product(SIZES, (False, True), LIMITS):
            inputs = lstm(table, dtype, *sizes)
            table.add("LSTMBlockCell", inputs, {"use_peephole": peeps, "cell_clip": clip,
                                                "forget_bias": 0.7}, tolerance=8,
                      whole=True)
            shape = inputs["cs_prev"].shape
            given = {name: table.unit(dtype, shape) for name in (*PARTS, "cs_grad", "h_grad")}
            table.add("LSTMBlockCellGrad", inputs | given, {"use_peephole": peeps}, tolerance=16,
                      whole=True)
    for name, shape in (("w", (3, 24)), ("b", (7,)), ("h_prev", (2, 6)), ("x", (2, 4))):
        wrong = lstm(table, "float32", 3, 4, 6) | {name: table.normal("float32", shape)}
        table.bad("LSTMBlockCell", wrong)


@family
def lstm_sequences(table: Table) -> None:
    """Of full length: what follows the last step is unspecified. The reference's gradient of V2
    takes the gates for those of V1, which its own finite differences contradict."""
    for version, dtype in itertools.product(("", "V2"), table.dtypes("BlockLSTM")):
        for sizes, peeps, clip in itertools.product(SIZES, (False, True), LIMITS):
            inputs = lstm(table, dtype, *sizes, 5) | {"seq_len_max": np.int64(5)}
            attrs = {"use_peephole": peeps, "cell_clip": clip}
            table.add(f"BlockLSTM{version}", inputs, attrs, gradient=int(not version),
                      tolerance=64,
                      whole=True)
    for sizes, peeps, steps in itertools.product(SIZES, (False, True), (5, 3, 0)):
        inputs = lstm(table, "float32", *sizes, 5) | {"seq_len_max": np.int64(steps)}
        shape = (5, *inputs["cs_prev"].shape)
        given = {name: table.unit("float32", shape)
                 for name in (*PARTS, "h", "cs_grad", "h_grad")}
        table.add("BlockLSTMGrad", inputs | given, {"use_peephole": peeps}, tolerance=64,
                      whole=True)


@family
def gru_cells(table: Table) -> None:
    for rows, size, units in SIZES:
        shapes = {"x": (rows, size), "h_prev": (rows, units), "w_ru": (size + units, 2 * units),
                  "w_c": (size + units, units), "b_ru": (2 * units,), "b_c": (units,)}
        inputs = {name: table.normal("float32", shape, 0.5) for name, shape in shapes.items()}
        table.add("GRUBlockCell", inputs, tolerance=8, whole=True)
        given = {name: table.unit("float32", (rows, units)) for name in ("r", "u", "c", "d_h")}
        table.add("GRUBlockCellGrad", inputs | given, tolerance=16, whole=True)
