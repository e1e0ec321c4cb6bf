"""Cases of ops that look at shapes or change them, without moving elements about."""

from __future__ import annotations

import numpy as np
from case import Shape, Type, Variable
from table import ALL, NUMBERS, SHAPES, Table, family, ints, scalar

SAME = ("Identity", "StopGradient", "PreventGradient", "Copy", "CopyHost", "DebugIdentity")


@family
def identities(table: Table) -> None:
    for dtype in ALL:
        for shape in ((), (0,), (2, 3)):
            value = table.normal(dtype, shape)
            table.add("Identity", {"input": value}, gradient=1)
            table.add("StopGradient", {"input": value}, gradient=1)
            table.add("ZerosLike", {"x": value})
            table.add("Rank", {"input": value})
            for out in ("int32", "int64"):
                table.add("Shape", {"input": value}, {"out_type": Type(out)})
                table.add("Size", {"input": value}, {"out_type": Type(out)})
                table.add("ShapeN", {"input": [value, table.normal(dtype, (4, 1))]},
                          {"out_type": Type(out)})
            table.add("PlaceholderWithDefault", {"input": value}, {"shape": Shape(None)},
                      gradient=1)
            table.add("ExpandDims", {"input": value, "dim": scalar(-1)}, gradient=1)
            if dtype != "string":
                table.add("OnesLike", {"x": value})
    for op in ("PreventGradient", "Copy", "CopyHost"):
        for dtype in ("float32", "int32"):
            table.add(op, {"input": table.normal(dtype, (2, 3))}, gradient=1)
    table.add("Print", {"input": table.normal("float32", (2,)), "data": [
        table.normal("float32", (3,))]}, {"message": "oracle", "first_n": 0}, gradient=1)
    table.add("Assert", {"condition": scalar(True, "bool"), "data": [ints(1)]})
    table.bad("Assert", {"condition": scalar(False, "bool"), "data": [ints(1, 2)]})
    table.add("Bitcast", {"input": table.normal("float32", (2, 3))}, {"type": Type("int32")})
    table.add("Bitcast", {"input": table.normal("float32", (3, 2))}, {"type": Type("int64")})
    table.add("Bitcast", {"input": table.normal("int64", (3,))}, {"type": Type("uint8")})
    table.add("Bitcast", {"input": table.normal("float64", ())}, {"type": Type("int16")})
    table.add("Bitcast", {"input": table.normal("complex64", (0,))}, {"type": Type("float32")})
    table.bad("Bitcast", {"input": table.normal("float32", (3,))}, {"type": Type("int64")})


@family
def reshapes(table: Table) -> None:
    for dtype in ALL:
        for shape, new in (((2, 3), (3, 2)), ((2, 3), (-1,)), ((), (1, 1)), ((1,), ()),
                           ((0, 2), (2, -1)), ((0,), (0, 5)), ((2, 3, 4), (4, -1, 2))):
            for kind in ("int32", "int64"):
                table.add("Reshape", {"tensor": table.normal(dtype, shape),
                                      "shape": np.array(new, kind)}, gradient=1)
    x = table.normal("float32", (2, 3))
    for new in ((4,), (-1, -1), (-1, 4), (-2, 3), (0, -1)):
        table.bad("Reshape", {"tensor": x, "shape": ints(*new)}, label=str(new))
    for shape, axis in (((), 0), ((2,), 1), ((2, 3), -1), ((2, 3), -3), ((2, 3), 1)):
        for kind in ("int32", "int64"):
            table.add("ExpandDims", {"input": table.normal("float32", shape),
                                     "dim": scalar(axis, kind)}, gradient=1)
    table.bad("ExpandDims", {"input": x, "dim": scalar(3)})
    table.bad("ExpandDims", {"input": x, "dim": scalar(-4)})
    for shape, axes in (((1, 2, 1), []), ((1, 2, 1), [0]), ((1, 2, 1), [-1, 0]), ((1,), [0]),
                        ((2, 3), []), ((1, 0, 1), [2])):
        for dtype in ("float32", "string", "int64"):
            table.add("Squeeze", {"input": table.normal(dtype, shape)}, {"squeeze_dims": axes},
                      gradient=1)
    table.bad("Squeeze", {"input": x}, {"squeeze_dims": [0]})
    table.bad("Squeeze", {"input": x}, {"squeeze_dims": [2]})


@family
def transposes(table: Table) -> None:
    for dtype in ALL:
        for shape, perm in (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((4,), (0,)), ((), ()),
                            ((0, 3), (1, 0)), ((2, 1, 3, 2), (0, 3, 1, 2)), ((40, 30), (1, 0))):
            table.add("Transpose", {"x": table.normal(dtype, shape),
                                    "perm": np.array(perm, table.rng.choice(["int32", "int64"]))},
                      gradient=1)
    x = table.normal("float32", (2, 3))
    for perm in ((0, 0), (0, 2), (0,), (0, 1, 2), (-1, 0)):
        table.bad("Transpose", {"x": x, "perm": ints(*perm)}, label=str(perm)) \
            if perm != (-1, 0) else table.add("Transpose", {"x": x, "perm": ints(*perm)})
    for kind in ("int32", "int64"):
        table.add("InvertPermutation", {"x": ints(2, 0, 3, 1, dtype=kind)})
        table.add("InvertPermutation", {"x": ints(dtype=kind)})
        for wrong in ((0, 0), (0, 2), (-1, 0)):
            table.bad("InvertPermutation", {"x": ints(*wrong, dtype=kind)})
    table.bad("InvertPermutation", {"x": table.integers(2, (2, 2))}, label="rank")


@family
def broadcasts(table: Table) -> None:
    for kind in ("int32", "int64"):
        for a, b in (((2, 3), (3,)), ((), (4,)), ((1, 3), (2, 1)), ((0,), (1,)), ((2,), (2,)),
                     ((2, 1, 3), (4, 1)), ((1,), (1,)), ((1, 1), (1,))):
            for op in ("BroadcastArgs", "BroadcastGradientArgs"):
                table.add(op, {"s0": np.array(a, kind), "s1": np.array(b, kind)})
        for op in ("BroadcastArgs", "BroadcastGradientArgs"):
            table.bad(op, {"s0": ints(2, 3, dtype=kind), "s1": ints(4, dtype=kind)})
    for dtype in ALL:
        for shape, new in (((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 4)), ((1,), (0,)),
                           ((2,), (2,)), ((), ())):
            table.add("BroadcastTo", {"input": table.normal(dtype, shape),
                                      "shape": np.array(new, "int32")}, gradient=1)
        for dims in ((), (0,), (3,), (2, 0, 3), (2, 3)):
            for kind in ("int32", "int64"):
                table.add("Fill", {"dims": np.array(dims, kind), "value": table.normal(dtype)},
                          gradient=1)
    x = table.normal("float32", (2, 3))
    table.bad("BroadcastTo", {"input": x, "shape": ints(3, 2)})
    table.bad("BroadcastTo", {"input": x, "shape": ints(3)})
    table.bad("Fill", {"dims": ints(-1), "value": scalar(1.0, "float32")})
    table.bad("Fill", {"dims": ints(2), "value": x}, label="rank")
    table.bad("Fill", {"dims": ints(2), "value": table.normal("float32", (2,))}, label="a vector")
    table.bad("Fill", {"dims": table.integers(2, (2, 2)), "value": scalar(1.0, "float32")})


@family
def sequences(table: Table) -> None:
    for dtype in ("int32", "int64", "float32", "float64"):
        for start, limit, delta in ((0, 5, 1), (3, 18, 3), (10, 2, -3), (0, 0, 1), (2, 7, 2)):
            table.add("Range", {"start": scalar(start, dtype), "limit": scalar(limit, dtype),
                                "delta": scalar(delta, dtype)})
        table.bad("Range", {"start": scalar(0, dtype), "limit": scalar(3, dtype),
                            "delta": scalar(0, dtype)})
        table.bad("Range", {"start": scalar(4, dtype), "limit": scalar(3, dtype),
                            "delta": scalar(1, dtype)})
        table.bad("Range", {"start": scalar(0, dtype), "limit": scalar(3, dtype),
                            "delta": scalar(-1, dtype)})
    table.add("Range", {"start": scalar(0, "float32"), "limit": scalar(1, "float32"),
                        "delta": scalar(0.1, "float32")})
    for dtype in table.dtypes("LinSpace"):
        for count in (1, 2, 7, 100):
            table.add("LinSpace", {"start": scalar(-1.5, dtype), "stop": scalar(4, dtype),
                                   "num": scalar(count)}, tolerance=4)
        table.bad("LinSpace", {"start": scalar(0, dtype), "stop": scalar(1, dtype),
                               "num": scalar(0)})
        table.bad("LinSpace", {"start": scalar(0, dtype), "stop": scalar(1, dtype),
                               "num": scalar(-1)})


@family
def constants(table: Table) -> None:
    """Const and Placeholder are what every input of a case is; here by their own attributes."""
    for dtype in NUMBERS:
        for shape in SHAPES:
            table.add("VariableShape", {"input": Variable(table.normal(dtype, shape), True)})
